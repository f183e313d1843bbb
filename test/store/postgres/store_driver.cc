// A PostgresStore in a process of its own, for tests that break the server and the network around
// it. Its settings are the first argument, a JSON object; then it reads one command a line from
// standard input and writes one answer a line, in the order in which they come. It ends with its
// input.
//
//   {"id":1,"op":"claim","key":"k","attempt":7,"deadline_ms":1000}
//   {"id":1,"result":"claimed","attempt":7,"elapsed_ms":3}
//
// Times are milliseconds; attempts are the caller's, so that it knows those of lost answers.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <simdjson.h>

#include "source/store/postgres/postgres_store.h"

namespace idempotency::test {
namespace {

using simdjson::dom::object;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

std::string text(const object& from, std::string_view name, std::string_view otherwise = "") {
  std::string_view value;
  return std::string(from[name].get(value) == simdjson::SUCCESS ? value : otherwise);
}

int64_t number(const object& from, std::string_view name, int64_t otherwise) {
  int64_t value = 0;
  return from[name].get(value) == simdjson::SUCCESS ? value : otherwise;
}

bool flag(const object& from, std::string_view name) {
  bool value = false;
  return from[name].get(value) == simdjson::SUCCESS && value;
}

// JSON; bytes beyond ASCII as characters of the same number.
std::string jsonString(std::string_view bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || code < 0x20 || code > 0x7e) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

std::string_view name(protocol::RecordState state) {
  switch (state) {
    case protocol::RecordState::InProgress:
      return "in_progress";
    case protocol::RecordState::Completed:
      return "completed";
    case protocol::RecordState::FailedRetryable:
      return "failed";
    case protocol::RecordState::Unknown:
      return "unknown";
    case protocol::RecordState::Expired:
      return "expired";
  }
  return "no such state";
}

std::string_view name(store::WriteOutcome outcome) {
  switch (outcome) {
    case store::WriteOutcome::Unavailable:
      return "unavailable";
    case store::WriteOutcome::InDoubt:
      return "in_doubt";
    case store::WriteOutcome::Locked:
      return "locked";
    case store::WriteOutcome::Fenced:
      return "fenced";
    case store::WriteOutcome::Done:
      return "done";
  }
  return "no such outcome";
}

std::string_view name(postgres::Breaker::State state) {
  switch (state) {
    case postgres::Breaker::State::Closed:
      return "closed";
    case postgres::Breaker::State::Open:
      return "open";
    case postgres::Breaker::State::HalfOpen:
      return "half_open";
  }
  return "no such state";
}

// The members of an answer, as JSON.
std::string told(std::string_view result, const std::string& reason) {
  return fmt::format(R"("result":"{}","reason":{})", result, jsonString(reason));
}
std::string told(const store::Record& record, std::string_view result) {
  return fmt::format(R"("result":"{}","state":"{}","attempt":{},"response":{})", result,
                     name(record.state), record.attempt, jsonString(record.response.value_or("")));
}
std::string describe(const store::Unavailable& result) {
  return told("unavailable", result.reason);
}
std::string describe(const store::InDoubt& result) {
  return told("in_doubt", result.reason);
}
std::string describe(const store::OverQuota&) {
  return told("over_quota", "");
}
std::string describe(const store::Claimed& result) {
  return fmt::format(R"("result":"claimed","attempt":{})", result.attempt);
}
std::string describe(const store::Exists& result) {
  return told(result.record, "exists");
}
std::string describe(const store::Absent&) {
  return told("absent", "");
}
std::string describe(const store::Record& record) {
  return told(record, "found");
}

// Any thread.
void answer(int64_t id, steady_clock::time_point since, const std::string& members) {
  static std::mutex mutex;
  const auto elapsed = std::chrono::duration_cast<milliseconds>(steady_clock::now() - since);
  const std::string line =
      fmt::format("{{\"id\":{},{},\"elapsed_ms\":{}}}\n", id, members, elapsed.count());
  const std::lock_guard lock(mutex);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

store::ClaimRef claimRef(const object& command) {
  return {{"tenant", "operation", text(command, "key")}, number(command, "attempt", 0)};
}

class Driver {
public:
  explicit Driver(std::unique_ptr<postgres::PostgresStore> store) : store_(std::move(store)) {}

  // False: no such operation.
  bool run(const object& command) {
    const int64_t id = number(command, "id", 0);
    const std::string op = text(command, "op");
    const auto now = steady_clock::now();
    const store::Deadline deadline = now + milliseconds(number(command, "deadline_ms", 5000));
    const auto variant = [id, now](const auto& result) {
      answer(id, now, std::visit([](const auto& content) { return describe(content); }, result));
    };
    const auto write = [id, now](const store::WriteResult& result) {
      answer(id, now, told(name(result.outcome), result.reason));
    };
    if (op == "claim") {
      store_->claim(claimRequest(command), deadline, variant);
    } else if (op == "look_up") {
      store_->lookUp(claimRef(command).identity, deadline, variant);
    } else if (op == "complete") {
      store_->settle(claimRef(command), completion(command), deadline, write);
    } else if (op == "fail") {
      store_->settle(claimRef(command), protocol::Failed{"failed"}, deadline, write);
    } else if (op == "release") {
      store_->settle(claimRef(command), protocol::Released{}, deadline, write);
    } else if (op == "mark_unknown") {
      store_->settle(claimRef(command), protocol::Unknown{"lost", {}}, deadline, write);
    } else if (op == "extend") {
      store_->extend({claimRef(command)}, milliseconds(30'000), deadline,
                     [write](const store::ExtendResult& results) { write(results.at(0)); });
    } else if (op == "stats") {
      answer(id, now, stats());
    } else {
      return false;
    }
    return true;
  }

private:
  static store::ClaimRequest claimRequest(const object& command) {
    store::ClaimRef ref = claimRef(command);
    store::ClaimRequest request;
    request.identity = std::move(ref.identity);
    request.attempt = ref.attempt;
    request.fingerprint = std::string(33, 'f');
    // As of routes with on_lease_expired: RETRY.
    if (flag(command, "retry")) {
      request.on_lease_expired = protocol::LeaseExpired::Retry;
    }
    // Claims a record that an earlier attempt left.
    if (const int64_t from = number(command, "from_attempt", 0); from != 0) {
      request.from = store::ReclaimFrom{
          static_cast<protocol::RecordState>(number(command, "from_state", 0)), from};
    }
    return request;
  }
  static protocol::Completed completion(const object& command) {
    protocol::Completed completed;
    completed.status = 200;
    completed.response_schema = 1;
    completed.response = text(command, "response");
    return completed;
  }
  std::string stats() const {
    const postgres::EngineStats stats = store_->stats();
    return fmt::format(
        R"("result":"stats","connections_up":{},"breaker":"{}","last_error":{},"connects":{},)"
        R"("connections_lost":{},"batches":{},"batches_failed":{},"orphans":{})",
        stats.connections_up, name(stats.breaker), jsonString(stats.last_error), stats.connects,
        stats.connections_lost, stats.batches, stats.batches_failed, stats.orphans);
  }

  const std::unique_ptr<postgres::PostgresStore> store_;
};

postgres::PostgresStoreOptions readOptions(const object& settings) {
  postgres::PostgresStoreOptions options;
  options.postgres.conninfo = text(settings, "conninfo");
  options.postgres.password_file = text(settings, "password_file");
  options.postgres.connections = static_cast<uint32_t>(number(settings, "connections", 4));
  options.postgres.timeout = milliseconds(number(settings, "timeout_ms", 1000));
  options.postgres.allow_asynchronous_commit = flag(settings, "allow_asynchronous_commit");
  return options;
}

int run(const char* settings) {
  simdjson::dom::parser parser;
  object parsed;
  if (parser.parse(std::string_view(settings)).get(parsed) != simdjson::SUCCESS) {
    std::cerr << "the settings are not a JSON object\n";
    return 2;
  }
  auto store = postgres::PostgresStore::create(readOptions(parsed));
  if (!store.ok()) {
    std::cerr << store.status() << "\n";
    return 1;
  }
  Driver driver(*std::move(store));
  for (std::string line; std::getline(std::cin, line);) {
    object command;
    if (parser.parse(line).get(command) != simdjson::SUCCESS || !driver.run(command)) {
      std::cerr << "not a command: " << line << "\n";
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace idempotency::test

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "one argument is needed: the settings\n";
    return 2;
  }
  return idempotency::test::run(argv[1]);
}
