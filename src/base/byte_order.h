// Little-endian numbers in byte strings, as our own formats have them. Stateless.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sarissa {

template <std::unsigned_integral T>
void AppendLittleEndian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

// The caller has checked that sizeof(T) bytes are there.
template <std::unsigned_integral T>
T LoadLittleEndian(const uint8_t* data) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | (static_cast<T>(data[i]) << (8 * i)));
  return value;
}

}  // namespace sarissa
