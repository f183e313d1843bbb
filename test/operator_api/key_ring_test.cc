#include "source/operator_api/key_ring.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

namespace idempotency::operator_api {
namespace {

class KeyRingTest : public ::testing::Test {
protected:
  KeyRingTest() {
    std::filesystem::create_directories(folder_);
    write("a", "0123456789abcdef\n");
    write("b", "another secret, long enough");
  }
  ~KeyRingTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, const std::string& secret) const {
    const std::string made = path(name + ".new");
    std::ofstream(made, std::ios::binary) << secret;
    std::filesystem::rename(made, path(name));
  }
  std::vector<protocol::WebhookKeySettings> files() const {
    return {{"first", path("a")}, {"second", path("b")}};
  }
  absl::StatusOr<std::unique_ptr<KeyRing>> open() {
    return KeyRing::open(files(), [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(line);
    });
  }
  size_t warnings() {
    const std::lock_guard lock(mutex_);
    return warnings_.size();
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("key_ring_test_" + std::to_string(getpid()));
  std::mutex mutex_;
  std::vector<std::string> warnings_;  // Guarded by mutex_.
};

bool waitFor(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

TEST_F(KeyRingTest, FilesAreReadWithoutTheirLineEnds) {
  const auto ring = open();
  ASSERT_TRUE(ring.ok()) << ring.status();
  EXPECT_EQ(*(*ring)->keys(), (std::vector<WebhookKey>{{"first", "0123456789abcdef"},
                                                       {"second", "another secret, long enough"}}));
}

TEST_F(KeyRingTest, AFileThatIsNotUsableAtTheStartIsAnError) {
  for (const std::string& secret : {std::string(), std::string("short"), std::string(5000, 'x')}) {
    write("b", secret);
    const auto ring = open();
    ASSERT_FALSE(ring.ok());
    EXPECT_NE(ring.status().message().find("second"), std::string::npos) << ring.status();
  }
  std::filesystem::remove(path("b"));
  EXPECT_FALSE(open().ok());
}

TEST_F(KeyRingTest, AChangedFileIsReadAgain) {
  const auto ring = open();
  ASSERT_TRUE(ring.ok());
  write("a", "fedcba9876543210");
  EXPECT_TRUE(waitFor([&] { return (*ring)->keys()->front().secret == "fedcba9876543210"; }));
  EXPECT_EQ(warnings(), 0);
}

TEST_F(KeyRingTest, AFileThatIsGoneTakesItsKeyOutOfTheRing) {
  const auto ring = open();
  ASSERT_TRUE(ring.ok());
  std::filesystem::remove(path("a"));
  EXPECT_TRUE(waitFor([&] { return (*ring)->keys()->size() == 1; }));
  EXPECT_EQ((*ring)->keys()->front().id, "second");
  EXPECT_TRUE(waitFor([&] { return warnings() == 1; }));
  write("a", "fedcba9876543210");
  EXPECT_TRUE(waitFor([&] { return (*ring)->keys()->size() == 2; }));
  EXPECT_EQ(warnings(), 1);
}

}  // namespace
}  // namespace idempotency::operator_api
