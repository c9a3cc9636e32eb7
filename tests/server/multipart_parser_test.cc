#include "server/multipart_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sarissa::server {
namespace {

// Writes down what the parser says: "[name]content|".
class Recorder final : public MultipartSink {
 public:
  std::string log;

 private:
  Status OnPart(const std::optional<std::string>& name) override {
    log += "[" + name.value_or("-") + "]";
    return Status::OK();
  }
  Status OnData(std::span<const uint8_t> data) override {
    log.append(reinterpret_cast<const char*>(data.data()), data.size());
    return Status::OK();
  }
  Status OnPartEnd() override {
    log += "|";
    return Status::OK();
  }
};

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

Status Parse(const std::vector<std::string_view>& pieces, std::string& log,
             std::string_view boundary = "B") {
  Recorder recorder;
  MultipartParser parser(boundary, recorder);
  Status status;
  for (const std::string_view piece : pieces) {
    status = parser.Consume(Bytes(piece));
    if (!status.ok()) break;
  }
  if (status.ok()) status = parser.Finish();
  log = recorder.log;
  return status;
}

constexpr char kBody[] =
    "--B\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n{\"a\":1}\r\n"
    "--B\r\ncontent-disposition: form-data; name=\"1\"\r\nContent-Type: "
    "application/octet-stream\r\n\r\n"
    "x\r\n--y\r\r\n-\r\n--A\r\n"
    "--B\r\nContent-Disposition: form-data; name=2; filename=\"q\"\r\n\r\n\r\n"
    "--B--\r\n";
constexpr char kLog[] = "[metadata]{\"a\":1}|[1]x\r\n--y\r\r\n-\r\n--A|[2]|";

TEST(MultipartParser, ReadsTheSameWhereverTheBodyIsCutOnce) {
  const std::string_view body = kBody;
  for (size_t cut = 0; cut <= body.size(); ++cut) {
    std::string log;
    const Status status = Parse({body.substr(0, cut), body.substr(cut)}, log);
    ASSERT_TRUE(status.ok()) << "cut at " << cut << ": " << status;
    ASSERT_EQ(log, kLog) << "cut at " << cut;
  }
}

TEST(MultipartParser, ReadsTheSameWhereverTheBodyIsCutTwice) {
  const std::string_view body = kBody;
  for (size_t first = 0; first <= body.size(); ++first) {
    for (size_t second = first; second <= body.size(); ++second) {
      std::string log;
      const Status status = Parse(
          {body.substr(0, first), body.substr(first, second - first), body.substr(second)}, log);
      ASSERT_TRUE(status.ok()) << first << " " << second << ": " << status;
      ASSERT_EQ(log, kLog) << first << " " << second;
    }
  }
}

TEST(MultipartParser, ReadsByteByByte) {
  const std::string_view body = kBody;
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < body.size(); ++i) pieces.push_back(body.substr(i, 1));
  std::string log;
  ASSERT_TRUE(Parse(pieces, log).ok());
  EXPECT_EQ(log, kLog);
}

TEST(MultipartParser, EveryTruncationIsAnError) {
  const std::string_view body = kBody;
  // The closing "--" is the last thing that has to be there.
  for (size_t length = 0; length + 2 < body.size(); ++length) {
    std::string log;
    ASSERT_FALSE(Parse({body.substr(0, length)}, log).ok()) << "cut to " << length;
  }
}

TEST(MultipartParser, RefusesMalformedBodies) {
  const std::string part = "Content-Disposition: form-data; name=\"a\"\r\n\r\nx";
  const std::vector<std::string> bodies = {
      "",
      "--B--",
      "preamble\r\n--B\r\n" + part + "\r\n--B--",
      "--C\r\n" + part + "\r\n--C--",
      "--B\r\n" + part + "\r\n--B--garbage",
      "--B\r\n" + part + "\r\n--B--\r\nmore",
      "--B\r\n" + part + "\r\n--Bx",
      "--B\r\n\r\nx\r\n--B--extra",
      "--B\r\nno colon\r\n\r\nx\r\n--B--",
      "--B\r\nContent-Disposition: attachment; name=\"a\"\r\n\r\nx\r\n--B--",
      "--B\r\nContent-Disposition: form-data; name=\"a\r\n\r\nx\r\n--B--",
      "--B\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nx\r\n--B--",
      "--B\r\n" + part.substr(0, part.size() - 5) +
          "\r\nContent-Disposition: form-data; name=\"b\"\r\n\r\nx\r\n--B--",
      "--B\r\nX: " + std::string(MultipartParser::kMaxPartHeader, 'x') + "\r\n\r\nx\r\n--B--",
  };
  for (const std::string& body : bodies) {
    std::string log;
    const Status status = Parse({body}, log);
    EXPECT_TRUE(Is(status, ErrorKind::kInvalid)) << body.substr(0, 80);
  }
}

TEST(MultipartParser, PartWithoutHeadersHasNoName) {
  std::string log;
  ASSERT_TRUE(Parse({"--B\r\n\r\nx\r\n--B--"}, log).ok());
  EXPECT_EQ(log, "[-]x|");
}

TEST(MultipartBoundary, IsReadFromTheContentType) {
  EXPECT_EQ(MultipartBoundary("multipart/form-data; boundary=abc").ValueOrDie(), "abc");
  EXPECT_EQ(MultipartBoundary("multipart/form-data; charset=x; BOUNDARY=\"a b\"").ValueOrDie(),
            "a b");
  for (const char* bad :
       {"multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a",
        "multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary=a\x01"}) {
    EXPECT_FALSE(MultipartBoundary(bad).ok()) << bad;
  }
  EXPECT_FALSE(MultipartBoundary("multipart/form-data; boundary=" + std::string(71, 'a')).ok());
}

}  // namespace
}  // namespace sarissa::server
