// Protobuf messages as bytes that depend on nothing but the message: map entries in key order. Two
// runs of one simulation, and two attempts at one commit, write the same files.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message_lite.h>

#include <string>

namespace sarissa::lance {

inline std::string StableBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  // Fails only for a message past 2 GiB or without a required field; proto3 has none.
  if (!message.SerializeToCodedStream(&coded)) bytes.clear();
  coded.Trim();
  return bytes;
}

}  // namespace sarissa::lance
