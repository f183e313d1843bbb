// Runs a fuzz target without libFuzzer: each file of the corpus, and then mutations of them.
//
//   <target>_fuzz [--mutations=N] FILE_OR_FOLDER...
//
// On a crash the input goes to stderr in hexadecimal, and as a file into Bazel's test outputs. Such
// a file given as the only argument shows the crash again.

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <signal.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "test/fuzz/fuzz.h"
#include "test/fuzz/mutator.h"

// There only where a sanitizer is linked in.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace idempotency {
namespace {

constexpr uint64_t Seed = 8941;

// The input that runs now, for the crash report.
const uint8_t* current_data = nullptr;
size_t current_size = 0;
char crash_path[4096] = "";

void writeAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, at, size);
    if (written <= 0) {
      return;
    }
    at += written;
    size -= static_cast<size_t>(written);
  }
}

// Runs inside a signal handler: system calls only.
void reportCurrentInput() {
  if (current_data == nullptr) {
    return;
  }
  const uint8_t* const data = current_data;
  current_data = nullptr;
  constexpr std::string_view Head = "crashing input, hexadecimal: ";
  constexpr char Digits[] = "0123456789abcdef";
  writeAll(STDERR_FILENO, Head.data(), Head.size());
  for (size_t i = 0; i < current_size; ++i) {
    const char pair[] = {Digits[data[i] >> 4], Digits[data[i] & 15]};
    writeAll(STDERR_FILENO, pair, sizeof(pair));
  }
  writeAll(STDERR_FILENO, "\n", 1);
  if (crash_path[0] != '\0') {
    const int fd = open(crash_path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    if (fd >= 0) {
      writeAll(fd, data, current_size);
      close(fd);
    }
  }
}

void onSignal(int signal_number) {
  reportCurrentInput();
  // The handler was installed for one shot: the default action follows.
  raise(signal_number);
}

void installCrashReport() {
  const char* const outputs = std::getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  if (outputs != nullptr) {
    std::snprintf(crash_path, sizeof(crash_path), "%s/crash", outputs);
  }
  struct sigaction action {};
  action.sa_handler = onSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(reportCurrentInput);
    sigaction(SIGABRT, &action, nullptr);
    return;
  }
  for (const int signal_number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) {
    sigaction(signal_number, &action, nullptr);
  }
}

// On a heap block of just its size, so that AddressSanitizer sees a read past the end.
void run(const std::string& input) {
  const auto copy = std::make_unique<uint8_t[]>(input.size());
  std::memcpy(copy.get(), input.data(), input.size());
  current_data = copy.get();
  current_size = input.size();
  LLVMFuzzerTestOneInput(copy.get(), input.size());
  current_data = nullptr;
}

std::optional<std::string> readFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return std::nullopt;
  }
  return std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// Sorted, since the order decides what the mutations are.
std::vector<std::filesystem::path> listFiles(const std::vector<std::string_view>& arguments) {
  std::vector<std::filesystem::path> files;
  for (const std::string_view argument : arguments) {
    if (!std::filesystem::is_directory(argument)) {
      files.emplace_back(argument);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argument)) {
      if (entry.is_regular_file()) {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

int replay(const std::vector<std::string_view>& arguments, size_t mutations) {
  std::vector<std::string> corpus;
  for (const auto& file : listFiles(arguments)) {
    auto input = readFile(file);
    if (!input) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 2;
    }
    corpus.push_back(*std::move(input));
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus: nothing would be tested\n");
    return 2;
  }
  installCrashReport();
  run("");
  for (const std::string& input : corpus) {
    run(input);
  }
  Mutator mutator(corpus, Seed);
  for (size_t i = 0; i < mutations; ++i) {
    run(mutator.next());
  }
  std::printf("ran %zu files and %zu mutations\n", corpus.size(), mutations);
  return 0;
}

}  // namespace
}  // namespace idempotency

int main(int argc, char** argv) {
  constexpr std::string_view Option = "--mutations=";
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  size_t mutations = 0;
  if (!arguments.empty() && arguments.front().starts_with(Option)) {
    const std::string_view number = arguments.front().substr(Option.size());
    const auto [end, error] = std::from_chars(number.begin(), number.end(), mutations);
    if (error != std::errc() || end != number.end()) {
      std::fprintf(stderr, "--mutations takes a number\n");
      return 2;
    }
    arguments.erase(arguments.begin());
  }
  return idempotency::replay(arguments, mutations);
}
