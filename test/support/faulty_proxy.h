#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "test/support/frontend_messages.h"
#include "test/support/gate.h"

namespace idempotency::test {

// Stands between a store and a server, both on sockets in the file system, and does harm when
// told to. One thread for each connection.
class FaultyProxy {
public:
  // Listens on `listen_path`; the server is at `server_path`.
  FaultyProxy(std::string listen_path, std::string server_path);
  ~FaultyProxy();
  FaultyProxy(const FaultyProxy&) = delete;
  FaultyProxy& operator=(const FaultyProxy&) = delete;

  // The next thing that a client says on any connection reaches the server, whose answer is thrown
  // away together with the connection.
  void loseNextAnswer() { lose_answers_ = 1; }
  // The next thing that a client says does not reach the server: its connection is cut instead.
  void loseNextRequest() { lose_requests_ = 1; }
  // The next answer is cut after so many bytes.
  void cutNextAnswerAfter(int bytes) { cut_after_ = bytes; }
  // From now on answers come in pieces of this size; 0: whole.
  void setPieceSize(int bytes) { piece_size_ = bytes; }
  // From now on nothing passes, either way, and nothing is closed.
  void setSilent(bool silent) { silent_ = silent; }

  // One moment in the life of one record.
  struct Aim {
    std::string statement;       // How the name of a prepared statement begins
    std::string parameter;       // one of whose parameters has this in it.
    bool answered = false;       // When the server has answered it; else before it gets there.
    std::shared_ptr<Gate> gate;  // It passes here, or its connection ends.
  };
  // Holds the connection at that moment, when it comes next. Takes the place of an earlier aim.
  void aim(std::optional<Aim> aim);

private:
  struct Link {
    const int client;
    const int server;
    bool lose_answer = false;
    std::shared_ptr<Gate> answer_gate;  // Not null: what the server says next passes there.
    FrontendMessages messages = {};
  };

  void accept();
  void serve(int client);
  // False: the connection ends.
  bool toServer(Link& link);
  bool toClient(Link& link);
  // What was said is what was aimed at: the aim, which is over with that.
  std::optional<Aim> struckBy(Link& link, std::string_view data);

  const std::string server_path_;
  int listener_ = -1;
  std::atomic<int> lose_answers_{0};
  std::atomic<int> lose_requests_{0};
  std::atomic<int> cut_after_{-1};
  std::atomic<int> piece_size_{0};
  std::atomic<bool> silent_{false};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::list<std::thread> threads_;  // Guarded by mutex_, as the aim.
  std::optional<Aim> aim_;
  std::thread acceptor_;
};

}  // namespace idempotency::test
