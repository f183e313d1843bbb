#include "source/runtime/run_dialer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <list>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <poll.h>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "test/store/store_contract.h"
#include "test/support/allocation_counter.h"

namespace idempotency::test {
namespace {

using namespace std::chrono_literals;
using runtime::DialEnd;
using runtime::RunDialer;

store::MonotonicTime now() {
  return std::chrono::steady_clock::now();
}

constexpr store::Deadline Never = store::Deadline::max();

// Whether it becomes ready, within a long time.
bool isReady(int fd, short events) {
  pollfd waits{.fd = fd, .events = events, .revents = 0};
  return poll(&waits, 1, static_cast<int>(std::chrono::milliseconds(LongTime).count())) == 1;
}

// One end of a connection, at the peer's side. Closed with the object.
class PeerSocket {
public:
  explicit PeerSocket(int fd = -1) : fd_(fd) {}
  ~PeerSocket() { close(); }
  PeerSocket(PeerSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  PeerSocket& operator=(PeerSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  void close() {
    if (fd_ >= 0) {
      ::close(std::exchange(fd_, -1));
    }
  }
  // Up to `size` bytes, in pieces of at most `piece`; fewer if the dialer closed.
  std::string read(size_t size, size_t piece = 65536) {
    std::string bytes(size, '\0');
    size_t done = 0;
    while (done < size) {
      if (!isReady(fd_, POLLIN)) {
        ADD_FAILURE() << "nothing came after " << done << " of " << size << " bytes";
        break;
      }
      const ssize_t count = ::recv(fd_, bytes.data() + done, std::min(piece, size - done), 0);
      if (count <= 0) {
        break;
      }
      done += static_cast<size_t>(count);
    }
    bytes.resize(done);
    return bytes;
  }
  // Whether the dialer closes it; reads what was sent before.
  bool isClosed() {
    char scratch[4096];
    for (;;) {
      if (!isReady(fd_, POLLIN)) {
        return false;
      }
      const ssize_t count = ::recv(fd_, scratch, sizeof(scratch), 0);
      if (count <= 0) {
        return count == 0 || errno == ECONNRESET;
      }
    }
  }
  // Blocks until the dialer has taken nearly all of it.
  bool write(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      if (!isReady(fd_, POLLOUT)) {
        return false;
      }
      const ssize_t count =
          ::send(fd_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN) {
        return false;
      }
      done += static_cast<size_t>(std::max<ssize_t>(count, 0));
    }
    return true;
  }

private:
  int fd_;
};

sockaddr_un addressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  return address;
}

// A socket that listens, and does no more by itself.
class Listener {
public:
  Listener(const std::string& path, int backlog)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), path_(path) {
    const sockaddr_un address = addressOf(path);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, backlog), 0);
  }
  ~Listener() {
    fillers_.clear();
    ::close(fd_);
  }

  PeerSocket accept() {
    if (!isReady(fd_, POLLIN)) {
      ADD_FAILURE() << "nobody connects";
    }
    return PeerSocket(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
  }
  // Whether one waits to be accepted.
  bool hasPending() const {
    pollfd waits{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&waits, 1, 0) == 1;
  }
  // Connects until the backlog is full. How many there are now.
  size_t fill() {
    const sockaddr_un address = addressOf(path_);
    for (;;) {
      PeerSocket one(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (connect(one.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
        EXPECT_EQ(errno, EAGAIN);
        return fillers_.size();
      }
      fillers_.push_back(std::move(one));
    }
  }
  // Once they are accepted.
  void forgetFillers() { fillers_.clear(); }

private:
  const int fd_;
  const std::string path_;
  std::vector<PeerSocket> fillers_;
};

// What a dialled connection's callback was told.
class Ending {
public:
  struct Told {
    DialEnd end{};
    std::string reason;
    std::thread::id thread;
    store::MonotonicTime at;
  };

  RunDialer::Ended callback() {
    return [this](DialEnd end, std::string_view reason) {
      {
        const std::lock_guard lock(mutex_);
        told_ = Told{end, std::string(reason), std::this_thread::get_id(), now()};
        ++calls_;
      }
      changed_.notify_all();
    };
  }
  Told wait() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, LongTime, [this] { return calls_ > 0; })) {
      ADD_FAILURE() << "it did not end";
    }
    return told_;
  }
  int calls() const {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Told told_;
  int calls_ = 0;
};

size_t openDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// The same bytes do not come again for a long while: what is left out or sent twice is seen.
std::string requestOf(size_t size) {
  std::string bytes(size, '\0');
  uint64_t state = size;
  for (char& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<char>(state >> 56U);
  }
  return bytes;
}

// With an id of its own, which it returns.
uint64_t dialOn(RunDialer& dialer, std::string bytes, store::Deadline deadline,
                RunDialer::Ended ended) {
  static std::atomic<uint64_t> last{0};
  const uint64_t id = ++last;
  dialer.dial(id, std::move(bytes), deadline, std::move(ended));
  return id;
}

// After each test the dialer is destroyed; then every connection has ended exactly once, those that
// the test closed have told nobody, and no descriptor is left.
class RunDialerTest : public testing::Test {
protected:
  void SetUp() override {
    folder_ = "/tmp/dial-XXXXXX";
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/s";
    descriptors_ = openDescriptors();
  }
  void TearDown() override {
    dialer_.reset();
    listener_.reset();
    for (const Ending& ending : endings_) {
      EXPECT_EQ(ending.calls(), closed_.contains(&ending) ? 0 : 1);
    }
    EXPECT_EQ(openDescriptors(), descriptors_);
    std::filesystem::remove_all(folder_);
  }

  void start(int backlog = 128, size_t max_connections = 100) {
    listener_.emplace(path_, backlog);
    dialer_.emplace(path_, max_connections);
  }
  // Without a listener.
  void startAlone(const std::string& path) { dialer_.emplace(path, 100); }

  Ending& newEnding() { return endings_.emplace_back(); }
  struct Dialled {
    uint64_t id;
    Ending& ending;
  };
  Dialled dial(std::string bytes, store::Deadline deadline = Never) {
    Ending& ending = newEnding();
    const uint64_t id = dialOn(*dialer_, std::move(bytes), deadline, ending.callback());
    EXPECT_NE(id, 0U);
    return {id, ending};
  }
  // Nothing else may end it at the same time.
  void close(const Dialled& dialled) {
    closed_.insert(&dialled.ending);
    dialer_->close(dialled.id);
  }
  // The dialer's thread has seen all deadlines up to this time, and done what was due.
  void passDeadlinesUntil(store::Deadline time, DialEnd expected = DialEnd::TimedOut) {
    EXPECT_EQ(dial("", time).ending.wait().end, expected);
  }

  std::string folder_;
  std::string path_;
  size_t descriptors_ = 0;
  std::list<Ending> endings_;
  std::set<const Ending*> closed_;
  std::optional<Listener> listener_;
  std::optional<RunDialer> dialer_;
};

// --- what arrives

TEST_F(RunDialerTest, SmallRequestArrivesWhole) {
  start();
  const std::string request = requestOf(100);
  const Dialled dialled = dial(request);
  EXPECT_EQ(dialer_->connections(), 1U);
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(peer.read(request.size()), request);
  EXPECT_EQ(dialled.ending.calls(), 0);
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
  EXPECT_EQ(dialer_->connections(), 0U);
}

TEST_F(RunDialerTest, SmallRequestIsSentByTheCaller) {
  start();
  dial("GET / HTTP/1.1\r\n\r\n");
  // No other thread had to run for this.
  EXPECT_TRUE(listener_->hasPending());
  EXPECT_EQ(listener_->accept().read(18), "GET / HTTP/1.1\r\n\r\n");
}

TEST_F(RunDialerTest, LargeRequestArrivesWholeAtASlowReader) {
  start();
  const std::string request = requestOf(20 << 20);
  const Dialled dialled = dial(request);
  PeerSocket peer = listener_->accept();
  // Small pieces, so that the socket is full again and again.
  EXPECT_TRUE(peer.read(request.size(), 3001) == request);
  EXPECT_EQ(dialled.ending.calls(), 0);
  // And nothing after it.
  close(dialled);
  EXPECT_EQ(peer.read(1), "");
}

TEST_F(RunDialerTest, SeveralLargeRequestsAreSentSideBySide) {
  start();
  constexpr size_t Size = 4 << 20;
  const std::string request = requestOf(Size);
  std::vector<PeerSocket> peers;
  for (int i = 0; i < 4; ++i) {
    dial(request);
    peers.push_back(listener_->accept());
  }
  // The first reader reads nothing; the others do not wait for it.
  for (size_t i = 1; i < peers.size(); ++i) {
    EXPECT_TRUE(peers[i].read(Size) == request);
  }
  EXPECT_TRUE(peers[0].read(Size) == request);
}

TEST_F(RunDialerTest, EmptyRequestOnlyConnects) {
  start();
  const Dialled dialled = dial("");
  PeerSocket peer = listener_->accept();
  passDeadlinesUntil(now() + 20ms);
  EXPECT_EQ(dialled.ending.calls(), 0);
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(RunDialerTest, SentBytesAreFreedWhileTheConnectionLives) {
  start();
  // So large that malloc always maps it, and says so.
  constexpr size_t Size = 40 << 20;
  const size_t before = mallinfo2().hblkhd;
  const Dialled dialled = dial(std::string(Size, 'x'));
  EXPECT_GE(mallinfo2().hblkhd, before + Size);
  PeerSocket peer = listener_->accept();
  // The peer's own buffers are small.
  for (size_t left = Size; left > 0; left -= 65536) {
    ASSERT_EQ(peer.read(65536).size(), 65536U);
  }
  EXPECT_TRUE(eventually([&] { return mallinfo2().hblkhd < before + Size; }));
  EXPECT_EQ(dialled.ending.calls(), 0);
}
#endif

// --- what cannot be opened

TEST_F(RunDialerTest, WithoutASocketItIsRefused) {
  startAlone(path_);
  const Ending::Told told = dial("request").ending.wait();
  EXPECT_EQ(told.end, DialEnd::Refused);
  EXPECT_EQ(told.reason, "No such file or directory");
  EXPECT_NE(told.thread, std::this_thread::get_id());
  EXPECT_EQ(dialer_->connections(), 0U);
}

TEST_F(RunDialerTest, WithoutAListenerItIsRefused) {
  { const Listener gone(path_, 1); }
  ASSERT_TRUE(std::filesystem::exists(path_));
  startAlone(path_);
  const Ending::Told told = dial("request").ending.wait();
  EXPECT_EQ(told.end, DialEnd::Refused);
  EXPECT_EQ(told.reason, "Connection refused");
}

TEST_F(RunDialerTest, WithoutPermissionItIsRefused) {
  if (geteuid() == 0) {
    GTEST_SKIP() << "the superuser has every permission";
  }
  start();
  std::filesystem::permissions(path_, std::filesystem::perms::none);
  EXPECT_EQ(dial("request").ending.wait().end, DialEnd::Refused);
}

TEST_F(RunDialerTest, PathThatNoSocketCanHaveIsRefused) {
  for (const std::string& path : {folder_ + "/" + std::string(108 - folder_.size() - 1, 'x'),
                                  std::string(5000, 'x'), std::string(), path_ + '\0' + "x"}) {
    startAlone(path);
    const Ending::Told told = dial("request").ending.wait();
    EXPECT_EQ(told.end, DialEnd::Refused);
    EXPECT_EQ(told.reason, "the path is not valid for a UNIX socket");
  }
}

TEST_F(RunDialerTest, LongestPathWorks) {
  path_ = folder_ + "/" + std::string(107 - folder_.size() - 1, 'x');
  ASSERT_EQ(path_.size(), 107U);
  start();
  dial("request");
  EXPECT_EQ(listener_->accept().read(7), "request");
}

TEST_F(RunDialerTest, WithoutADescriptorItIsRefused) {
  start();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int lowest_free = dup(0);
  ::close(lowest_free);
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(lowest_free);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const Ending::Told told = dial("request").ending.wait();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(told.end, DialEnd::Refused);
  EXPECT_EQ(told.reason, "Too many open files");
  EXPECT_FALSE(listener_->hasPending());
}

TEST_F(RunDialerTest, WithoutMemoryNothingIsLeftBehind) {
  start();
  bool whole = false;
  size_t failures = 0;
  for (size_t good = 0; !whole; ++good) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    std::string bytes(1000, 'x');
    RunDialer::Ended ended = [calls](DialEnd, std::string_view) { ++*calls; };
    uint64_t id = 0;
    bool thrown = false;
    try {
      const FailingAllocations failing(good, 1);
      id = dialOn(*dialer_, std::move(bytes), Never, std::move(ended));
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
    if (thrown) {
      ++failures;
      EXPECT_EQ(dialer_->connections(), 0U);
      EXPECT_FALSE(listener_->hasPending());
      EXPECT_EQ(calls.use_count(), 1);
      EXPECT_EQ(*calls, 0);
    } else {
      whole = true;
      EXPECT_EQ(dialer_->connections(), 1U);
      dialer_->close(id);
      EXPECT_EQ(calls.use_count(), 1);
      EXPECT_EQ(*calls, 0);
    }
  }
  EXPECT_GE(failures, 2U);
}

TEST_F(RunDialerTest, WithoutMemoryOneTooManyIsToldOrWasNeverThere) {
  start(128, 1);
  dial("holds the only place");
  bool whole = false;
  for (size_t good = 0; !whole; ++good) {
    Ending ending;
    std::string bytes(1000, 'x');
    RunDialer::Ended ended = ending.callback();
    whole = true;
    try {
      const FailingAllocations failing(good, 1);
      dialOn(*dialer_, std::move(bytes), Never, std::move(ended));
    } catch (const std::bad_alloc&) {
      whole = false;
    }
    if (whole) {
      EXPECT_EQ(ending.wait().end, DialEnd::Full);
    } else {
      passDeadlinesUntil(now(), DialEnd::Full);
      EXPECT_EQ(ending.calls(), 0);
    }
    EXPECT_EQ(dialer_->connections(), 1U);
  }
}

TEST_F(RunDialerTest, ThreadWithoutMemoryStillReports) {
  start();
  std::optional<FailingAllocations> failing;
  std::atomic<bool> fails{false};
  std::atomic<int> ends{0};
  const auto count = [&](DialEnd, std::string_view) { ++ends; };
  std::vector<PeerSocket> peers;
  for (int i = 0; i < 3; ++i) {
    dialOn(*dialer_, "request", Never, count);
    peers.push_back(listener_->accept());
  }
  const uint64_t timed_out = dialOn(*dialer_, "request", Never, count);
  const uint64_t last = dialOn(*dialer_, "request", Never, [&](DialEnd, std::string_view) {
    failing.reset();
    fails = false;
  });
  // From here on, the thread's own allocations fail.
  dialOn(*dialer_, "", now(), [&](DialEnd, std::string_view) {
    failing.emplace(0, std::numeric_limits<size_t>::max());
    fails = true;
  });
  ASSERT_TRUE(eventually([&] { return fails.load(); }));
  peers.clear();
  dialer_->setDeadline(timed_out, now());
  EXPECT_TRUE(eventually([&] { return ends == 4; }));
  dialer_->setDeadline(last, now());
  EXPECT_TRUE(eventually([&] { return !fails; }));
}

// --- what the peer does

TEST_F(RunDialerTest, PeerClosesBeforeItHasReadASmallRequest) {
  start();
  const Dialled dialled = dial("request");
  listener_->accept().close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, PeerClosesBeforeItHasReadALargeRequest) {
  start();
  const Dialled dialled = dial(requestOf(4 << 20));
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(peer.read(1000).size(), 1000U);
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, ListenerIsClosedBeforeItAccepts) {
  start();
  const Dialled dialled = dial("request");
  listener_.reset();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, PeerAnswersAndCloses) {
  start();
  const Dialled dialled = dial("request");
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(peer.read(7), "request");
  EXPECT_TRUE(peer.write("HTTP/1.1 200 OK\r\n\r\n"));
  peer.close();
  const Ending::Told told = dialled.ending.wait();
  EXPECT_EQ(told.end, DialEnd::Answered);
  EXPECT_EQ(told.reason, "closed by the listener");
}

TEST_F(RunDialerTest, PeerDisownsTheRunAndCloses) {
  start();
  for (const size_t piece : {1000u, 1u}) {
    const Dialled dialled = dial("request");
    PeerSocket peer = listener_->accept();
    const std::string answer = "HTTP/1.1 404 Not Found\r\nidempotency-run: unknown\r\n\r\n";
    for (size_t at = 0; at < answer.size(); at += piece) {
      EXPECT_TRUE(peer.write(answer.substr(at, piece)));
    }
    peer.close();
    EXPECT_EQ(dialled.ending.wait().end, DialEnd::Disowned);
  }
}

// The upstream can say what it likes, after the listener's own fields.
TEST_F(RunDialerTest, OnlyTheBeginningDisownsARun) {
  start();
  const Dialled dialled = dial("request");
  PeerSocket peer = listener_->accept();
  EXPECT_TRUE(peer.write("HTTP/1.1 200 OK\r\nx: " + std::string(300, 'x') +
                         "\r\nidempotency-run: unknown\r\n\r\n"));
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Answered);
}

TEST_F(RunDialerTest, LongAnswerIsReadAndDoesNotEndIt) {
  start();
  const Dialled dialled = dial("request");
  PeerSocket peer = listener_->accept();
  // Far more than the sockets hold.
  EXPECT_TRUE(peer.write(std::string(8 << 20, 'x')));
  EXPECT_EQ(dialled.ending.calls(), 0);
  EXPECT_EQ(dialer_->connections(), 1U);
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Answered);
}

TEST_F(RunDialerTest, PeerMayAnswerWhileItReads) {
  start();
  const std::string request = requestOf(4 << 20);
  const Dialled dialled = dial(request);
  PeerSocket peer = listener_->accept();
  std::string got = peer.read(1000);
  EXPECT_TRUE(peer.write(std::string(4 << 20, 'x')));
  got += peer.read(request.size() - got.size());
  EXPECT_TRUE(got == request);
  EXPECT_EQ(dialled.ending.calls(), 0);
}

TEST_F(RunDialerTest, HalfClosedCountsAsClosed) {
  start();
  const Dialled dialled = dial("request");
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(shutdown(peer.fd(), SHUT_WR), 0);
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
  EXPECT_TRUE(peer.isClosed());
}

TEST_F(RunDialerTest, PeerThatReadsNoMoreCountsAsClosed) {
  start();
  const Dialled dialled = dial(requestOf(4 << 20));
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(shutdown(peer.fd(), SHUT_RD), 0);
  // Makes space, so that the dialer sends again.
  peer.read(4 << 20);
  const Ending::Told told = dialled.ending.wait();
  EXPECT_EQ(told.end, DialEnd::Closed);
  EXPECT_EQ(told.reason, "Broken pipe");
}

// --- deadlines

TEST_F(RunDialerTest, DeadlineBeforeThePeerAccepts) {
  start();
  const store::Deadline deadline = now() + 500ms;
  const Dialled dialled = dial("request", deadline);
  const Ending::Told told = dialled.ending.wait();
  EXPECT_EQ(told.end, DialEnd::TimedOut);
  EXPECT_EQ(told.reason, "no answer in time");
  EXPECT_GE(told.at, deadline);
  EXPECT_NE(told.thread, std::this_thread::get_id());
  EXPECT_TRUE(listener_->accept().isClosed());
}

TEST_F(RunDialerTest, DeadlineWhileItIsSent) {
  start();
  const Dialled dialled = dial(requestOf(4 << 20));
  PeerSocket peer = listener_->accept();
  const store::Deadline deadline = now() + 50ms;
  dialer_->setDeadline(dialled.id, deadline);
  const Ending::Told told = dialled.ending.wait();
  EXPECT_EQ(told.end, DialEnd::TimedOut);
  EXPECT_GE(told.at, deadline);
  EXPECT_TRUE(peer.isClosed());
}

TEST_F(RunDialerTest, AfterItsDeadlineNothingIsSent) {
  start();
  EXPECT_EQ(dial("request", now()).ending.wait().end, DialEnd::TimedOut);
  EXPECT_EQ(dial("request", store::Deadline::min()).ending.wait().end, DialEnd::TimedOut);
  EXPECT_FALSE(listener_->hasPending());
}

TEST_F(RunDialerTest, DeadlineCanBeExtended) {
  start();
  const store::Deadline first = now() + 1s;
  const Dialled later = dial("request", first);
  const Dialled never = dial("request", first);
  dialer_->setDeadline(later.id, first + 200ms);
  dialer_->setDeadline(never.id, Never);
  passDeadlinesUntil(first + 20ms);
  EXPECT_EQ(later.ending.calls(), 0);
  const Ending::Told told = later.ending.wait();
  EXPECT_EQ(told.end, DialEnd::TimedOut);
  EXPECT_GE(told.at, first + 200ms);
  EXPECT_EQ(never.ending.calls(), 0);
  EXPECT_EQ(dialer_->connections(), 1U);
}

TEST_F(RunDialerTest, DeadlineCanBeShortened) {
  start();
  const Dialled dialled = dial("request", now() + 1h);
  const Dialled endless = dial("request");
  // The thread sleeps, and for longer than this test waits.
  passDeadlinesUntil(now() + 5ms);
  const store::Deadline deadline = now() + 30ms;
  dialer_->setDeadline(dialled.id, deadline);
  const Ending::Told told = dialled.ending.wait();
  EXPECT_EQ(told.end, DialEnd::TimedOut);
  EXPECT_GE(told.at, deadline);
  dialer_->setDeadline(endless.id, store::Deadline::min());
  EXPECT_EQ(endless.ending.wait().end, DialEnd::TimedOut);
}

TEST_F(RunDialerTest, EachHasADeadlineOfItsOwn) {
  start();
  const store::MonotonicTime begin = now();
  std::vector<std::pair<Dialled, store::Deadline>> all;
  for (const int step : {5, 2, 7, 1, 6, 3, 4, 1}) {
    const store::Deadline deadline = begin + step * 30ms;
    all.emplace_back(dial("request", deadline), deadline);
  }
  for (const auto& [dialled, deadline] : all) {
    const Ending::Told told = dialled.ending.wait();
    EXPECT_EQ(told.end, DialEnd::TimedOut);
    EXPECT_GE(told.at, deadline);
  }
}

TEST_F(RunDialerTest, UnknownAndEndedConnectionsAreIgnored) {
  start();
  const Dialled dialled = dial("request");
  listener_->accept().close();
  dialled.ending.wait();
  for (const uint64_t id : {dialled.id, dialled.id + 1, uint64_t{0}}) {
    EXPECT_FALSE(dialer_->setDeadline(id, now()));
    dialer_->close(id);
  }
  EXPECT_EQ(dialer_->connections(), 0U);
  passDeadlinesUntil(now() + 5ms);
}

// --- close() and the destructor

TEST_F(RunDialerTest, ClosedOnesDoNotReport) {
  start();
  const Dialled small = dial("request");
  const Dialled large = dial(requestOf(4 << 20));
  PeerSocket small_peer = listener_->accept();
  PeerSocket large_peer = listener_->accept();
  for (const Dialled& dialled : {small, large}) {
    close(dialled);
    close(dialled);
    dialer_->setDeadline(dialled.id, now());
  }
  EXPECT_EQ(dialer_->connections(), 0U);
  EXPECT_TRUE(small_peer.isClosed());
  EXPECT_TRUE(large_peer.isClosed());
  passDeadlinesUntil(now() + 5ms);
}

TEST_F(RunDialerTest, DestructorEndsWhatIsLeft) {
  start(1);
  const Dialled accepted = dial("request");
  PeerSocket peer = listener_->accept();
  const Dialled sending = dial(requestOf(4 << 20), now() + 1h);
  listener_->fill();
  const Dialled waiting = dial("request");
  EXPECT_EQ(dialer_->connections(), 3U);
  dialer_.reset();
  for (const Dialled& dialled : {accepted, sending, waiting}) {
    ASSERT_EQ(dialled.ending.calls(), 1);
    const Ending::Told told = dialled.ending.wait();
    EXPECT_EQ(told.end, DialEnd::Closed);
    EXPECT_EQ(told.reason, "shutting down");
    EXPECT_EQ(told.thread, std::this_thread::get_id());
  }
  EXPECT_TRUE(peer.isClosed());
}

TEST_F(RunDialerTest, DestructorWithoutConnections) {
  start();
  dialer_.reset();
  startAlone(path_);
}

// --- limits

TEST_F(RunDialerTest, FullBacklogIsTriedUntilThereIsSpace) {
  start(0);
  const size_t fillers = listener_->fill();
  ASSERT_GE(fillers, 1U);
  const std::string request = requestOf(1 << 20);
  const Dialled dialled = dial(request);
  EXPECT_EQ(dialer_->connections(), 1U);
  passDeadlinesUntil(now() + 30ms, DialEnd::Full);
  EXPECT_EQ(dialled.ending.calls(), 0);
  for (size_t i = 0; i < fillers; ++i) {
    listener_->accept();
  }
  PeerSocket peer = listener_->accept();
  EXPECT_TRUE(peer.read(request.size()) == request);
  EXPECT_EQ(dialled.ending.calls(), 0);
  peer.close();
  EXPECT_EQ(dialled.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, BacklogThatStaysFull) {
  start(0);
  listener_->fill();
  const store::Deadline deadline = now() + 50ms;
  const Ending::Told told = dial("request", deadline).ending.wait();
  EXPECT_EQ(told.end, DialEnd::Full);
  EXPECT_EQ(told.reason, "its backlog is full");
  EXPECT_GE(told.at, deadline);
  EXPECT_EQ(dialer_->connections(), 0U);
}

TEST_F(RunDialerTest, ThoseThatWaitAreOpenedInTheirOrder) {
  start(0);
  const size_t fillers = listener_->fill();
  for (const char* const request : {"1", "2", "3", "4", "5"}) {
    dial(request);
  }
  for (size_t i = 0; i < fillers; ++i) {
    listener_->accept();
  }
  std::string got;
  for (int i = 0; i < 5; ++i) {
    got += listener_->accept().read(1);
  }
  EXPECT_EQ(got, "12345");
}

TEST_F(RunDialerTest, NewcomerDoesNotOvertakeThoseThatWait) {
  start(0);
  for (int round = 0; round < 20; ++round) {
    const size_t fillers = listener_->fill();
    dial("1");
    // Now there is space, but the dialer does not know yet.
    for (size_t i = 0; i < fillers; ++i) {
      listener_->accept();
    }
    dial("2");
    EXPECT_EQ(listener_->accept().read(1), "1");
    EXPECT_EQ(listener_->accept().read(1), "2");
    listener_->forgetFillers();
  }
}

TEST_F(RunDialerTest, ThoseThatWaitCanBeClosedAndGetAnotherDeadline) {
  start(0);
  const size_t fillers = listener_->fill();
  const Dialled first = dial("first");
  const Dialled second = dial("second", now() + 1h);
  const Dialled third = dial("third");
  close(first);
  EXPECT_EQ(dialer_->connections(), 2U);
  dialer_->setDeadline(second.id, now() + 10ms);
  EXPECT_EQ(second.ending.wait().end, DialEnd::Full);
  EXPECT_EQ(third.ending.calls(), 0);
  for (size_t i = 0; i < fillers; ++i) {
    listener_->accept();
  }
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(peer.read(5), "third");
  // Nothing is left of the other two: they do not connect, and nobody waits for them.
  passDeadlinesUntil(now() + 5ms);
  while (listener_->hasPending()) {
    EXPECT_EQ(listener_->accept().read(1), "");
  }
  const Dialled next = dial("next");
  EXPECT_TRUE(listener_->hasPending()) << "sent by the caller, since nobody waits";
  EXPECT_EQ(listener_->accept().read(4), "next");
  EXPECT_EQ(next.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, ListenerGoesWhileTheyWait) {
  start(0);
  listener_->fill();
  const Dialled first = dial("first");
  const Dialled second = dial("second");
  listener_.reset();
  EXPECT_EQ(first.ending.wait().end, DialEnd::Refused);
  EXPECT_EQ(second.ending.wait().end, DialEnd::Refused);
}

TEST_F(RunDialerTest, MoreThanTheLimitAreFullAtOnce) {
  start(128, 2);
  const Dialled first = dial("1");
  const Dialled second = dial("2");
  const Ending::Told told = dial("3", Never).ending.wait();
  EXPECT_EQ(told.end, DialEnd::Full);
  EXPECT_EQ(told.reason, "too many runs (private_listener.max_runs)");
  EXPECT_NE(told.thread, std::this_thread::get_id());
  EXPECT_EQ(dialer_->connections(), 2U);
  EXPECT_EQ(first.ending.calls() + second.ending.calls(), 0);
  // There is space again as soon as one is closed.
  close(first);
  EXPECT_EQ(dialer_->connections(), 1U);
  const Dialled fourth = dial("4");
  EXPECT_EQ(dialer_->connections(), 2U);
  std::string got;
  for (int i = 0; i < 3; ++i) {
    got += listener_->accept().read(1);
  }
  EXPECT_EQ(got, "124");
  EXPECT_EQ(second.ending.wait().end, DialEnd::Closed);
  EXPECT_EQ(fourth.ending.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, ThoseThatWaitCountForTheLimit) {
  start(0, 2);
  listener_->fill();
  dial("1");
  dial("2");
  EXPECT_EQ(dial("3").ending.wait().reason, "too many runs (private_listener.max_runs)");
  EXPECT_EQ(dialer_->connections(), 2U);
}

TEST_F(RunDialerTest, LimitHoldsForManyThreads) {
  start(128, 10);
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        Ending* ending = nullptr;
        {
          const std::lock_guard lock(mutex);
          ending = &newEnding();
        }
        dialOn(*dialer_, "request", Never, ending->callback());
        EXPECT_LE(dialer_->connections(), 10U);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(dialer_->connections(), 10U);
  const auto ended = [&] {
    return std::count_if(endings_.begin(), endings_.end(),
                         [](const Ending& ending) { return ending.calls() == 1; });
  };
  EXPECT_TRUE(eventually([&] { return ended() == 70; }));
}

// --- callbacks

TEST_F(RunDialerTest, CallbackMayDialAndClose) {
  start();
  const Dialled other = dial("other");
  Ending& first = newEnding();
  Ending& second = newEnding();
  dialOn(*dialer_, "first", Never, [&](DialEnd end, std::string_view reason) {
    close(other);
    dialer_->setDeadline(other.id, now());
    EXPECT_EQ(dialer_->connections(), 0U);
    dialOn(*dialer_, "second", Never, second.callback());
    EXPECT_EQ(dialer_->connections(), 1U);
    first.callback()(end, reason);
  });
  PeerSocket other_peer = listener_->accept();
  listener_->accept().close();
  EXPECT_EQ(first.wait().end, DialEnd::Closed);
  EXPECT_TRUE(other_peer.isClosed());
  PeerSocket peer = listener_->accept();
  EXPECT_EQ(peer.read(6), "second");
  EXPECT_EQ(second.calls(), 0);
  peer.close();
  EXPECT_EQ(second.wait().end, DialEnd::Closed);
}

TEST_F(RunDialerTest, CallbackNeverRunsInsideOfDial) {
  start(128, 1);
  dial("holds the only place");
  Ending& outer = newEnding();
  Ending& inner = newEnding();
  dialOn(*dialer_, "", Never, [&](DialEnd end, std::string_view reason) {
    // Ends at once, on this very thread.
    dialOn(*dialer_, "", Never, inner.callback());
    EXPECT_EQ(inner.calls(), 0);
    outer.callback()(end, reason);
  });
  EXPECT_EQ(outer.wait().end, DialEnd::Full);
  EXPECT_EQ(inner.wait().end, DialEnd::Full);
}

TEST_F(RunDialerTest, CallbackThatAlwaysDialsDoesNotHoldUpOthers) {
  start(128, 1);
  const Dialled other = dial("holds the only place");
  std::atomic<bool> enough{false};
  std::atomic<int> calls{0};
  std::function<void(DialEnd, std::string_view)> again = [&](DialEnd, std::string_view) {
    ++calls;
    if (!enough) {
      dialOn(*dialer_, "", Never, again);
    }
  };
  dialOn(*dialer_, "", Never, again);
  EXPECT_TRUE(eventually([&] { return calls > 100; }));
  listener_->accept().close();
  EXPECT_EQ(other.ending.wait().end, DialEnd::Closed);
  enough = true;
  dialer_.reset();
}

// Whoever the peer tells of the end can already find out why.
TEST_F(RunDialerTest, PeerSeesTheEndAfterTheCallback) {
  start();
  for (const bool in_destructor : {false, true}) {
    Ending& ending = newEnding();
    std::optional<PeerSocket> peer;
    const uint64_t id = dialOn(*dialer_, "", Never, [&](DialEnd end, std::string_view reason) {
      pollfd waits{.fd = peer->fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
      EXPECT_EQ(poll(&waits, 1, 0), 0) << "it has ended already";
      ending.callback()(end, reason);
    });
    peer = listener_->accept();
    if (in_destructor) {
      dialer_.reset();
    } else {
      dialer_->setDeadline(id, now());
    }
    EXPECT_EQ(ending.wait().end, in_destructor ? DialEnd::Closed : DialEnd::TimedOut);
    EXPECT_TRUE(peer->isClosed());
  }
}

TEST_F(RunDialerTest, CallbackMayThrowOrBeEmpty) {
  start();
  const auto throwing = [](DialEnd, std::string_view) { throw std::runtime_error("no"); };
  dialOn(*dialer_, "", now(), throwing);
  dialOn(*dialer_, "", now(), nullptr);
  passDeadlinesUntil(now() + 5ms);
  // In the destructor, too.
  dialOn(*dialer_, "", Never, throwing);
  dialOn(*dialer_, "", Never, nullptr);
}

TEST_F(RunDialerTest, CallbackIsDestroyedOnceItHasRunOrCannotRunAnyMore) {
  start();
  const auto token = std::make_shared<int>();
  const auto holding = [token](DialEnd, std::string_view) { EXPECT_NE(token, nullptr); };
  const long held = token.use_count();
  const uint64_t closed = dialOn(*dialer_, "", Never, holding);
  const uint64_t timed_out = dialOn(*dialer_, "", Never, holding);
  EXPECT_EQ(token.use_count(), held + 2);
  dialer_->close(closed);
  EXPECT_EQ(token.use_count(), held + 1);
  dialer_->setDeadline(timed_out, now());
  EXPECT_TRUE(eventually([&] { return token.use_count() == held; }));
}

// --- the thread

TEST_F(RunDialerTest, ThreadSleepsWhileNothingHappens) {
  start(1);
  // All is sent, and the answer is read.
  dial("request");
  PeerSocket accepted = listener_->accept();
  EXPECT_TRUE(accepted.write("answer"));
  // Sent by the thread.
  const std::string large = requestOf(1 << 20);
  dial(large);
  PeerSocket reading = listener_->accept();
  EXPECT_TRUE(reading.read(large.size()) == large);
  // Cannot be sent.
  dial(large);
  PeerSocket silent = listener_->accept();
  // Waits.
  listener_->fill();
  dial("request");
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  passDeadlinesUntil(now() + 1s, DialEnd::Full);
  // A thread that spins uses nearly all of the second, or is kept from it by others.
  EXPECT_LT(used() - before, 300ms);
}

// --- many

TEST_F(RunDialerTest, ManyThreadsDialAtOnceAndAllAreAccountedFor) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr size_t Threads = 8;
  constexpr size_t Each = 250;
  constexpr size_t All = Threads * Each;
  // Each has two descriptors here.
  ASSERT_GE(limit.rlim_cur, 2 * All + 100);
  start(64, All);

  std::vector<std::pair<PeerSocket, std::string>> peers;
  std::thread accepting([&] {
    for (size_t i = 0; i < All; ++i) {
      PeerSocket peer = listener_->accept();
      std::string name = peer.read(4);
      peers.emplace_back(std::move(peer), std::move(name));
    }
  });
  std::vector<Ending> endings(All);
  std::vector<uint64_t> ids(All);
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < Threads; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = thread * Each; i < (thread + 1) * Each; ++i) {
        ids[i] = dialOn(*dialer_, std::to_string(1000 + i), Never, endings[i].callback());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  accepting.join();
  EXPECT_TRUE(eventually([&] { return dialer_->connections() == All; }));

  // By turns: the peer closes, the dialer is told to, the deadline passes, the dialer is destroyed.
  for (auto& [peer, name] : peers) {
    ASSERT_EQ(name.size(), 4U);
    const size_t i = std::stoul(name) - 1000;
    ASSERT_LT(i, All);
    EXPECT_EQ(endings[i].calls(), 0);
    if (i % 4 == 0) {
      peer.close();
    } else if (i % 4 == 1) {
      dialer_->close(ids[i]);
    } else if (i % 4 == 2) {
      dialer_->setDeadline(ids[i], now() + 10ms);
    }
  }
  for (size_t i = 0; i < All; ++i) {
    if (i % 4 == 0 || i % 4 == 2) {
      EXPECT_EQ(endings[i].wait().end, i % 4 == 2 ? DialEnd::TimedOut : DialEnd::Closed);
    }
  }
  EXPECT_EQ(dialer_->connections(), All / 4);
  dialer_.reset();
  for (size_t i = 0; i < All; ++i) {
    EXPECT_EQ(endings[i].calls(), i % 4 == 1 ? 0 : 1);
    if (i % 4 == 3) {
      EXPECT_EQ(endings[i].wait().reason, "shutting down");
    }
  }
}

// All races at once; what it finds, a sanitizer sees.
TEST_F(RunDialerTest, EndsOfAllKindsMayRace) {
  start(4, 50);
  std::atomic<bool> over{false};
  std::thread peer_thread([&] {
    for (size_t i = 0; !over; ++i) {
      if (listener_->hasPending()) {
        PeerSocket peer = listener_->accept();
        if (i % 3 == 0) {
          peer.write("answer");
        }
      } else {
        std::this_thread::yield();
      }
    }
  });
  constexpr size_t Each = 500;
  struct Raced {
    uint64_t id = 0;
    Ending ending;
  };
  // Those of a thread may be closed by another.
  const auto mayBeClosed = [](uint64_t id) { return id % 5 != 0; };
  std::vector<std::vector<Raced>> all;
  for (int thread = 0; thread < 4; ++thread) {
    all.emplace_back(Each);
  }
  std::atomic<uint64_t> last{0};
  std::vector<std::thread> threads;
  for (std::vector<Raced>& own : all) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < Each; ++i) {
        own[i].id = dialOn(*dialer_, std::string(i % 10 == 0 ? 1 << 19 : 100, 'x'),
                           now() + (i % 7) * 1ms, own[i].ending.callback());
        dialer_->setDeadline(last.exchange(own[i].id), now() + (i % 5) * 1ms);
        const uint64_t other = own[i].id - i % 4;
        if (i % 3 == 0 && mayBeClosed(other)) {
          dialer_->close(other);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(eventually([&] { return dialer_->connections() == 0; }));
  dialer_.reset();
  over = true;
  peer_thread.join();
  for (const std::vector<Raced>& own : all) {
    for (const Raced& raced : own) {
      EXPECT_LE(raced.ending.calls(), 1);
      EXPECT_TRUE(raced.ending.calls() == 1 || mayBeClosed(raced.id));
    }
  }
}

}  // namespace
}  // namespace idempotency::test
