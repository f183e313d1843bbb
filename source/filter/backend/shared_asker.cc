#include "source/filter/backend/shared_asker.h"

#include <charconv>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace idempotency::filter {
namespace {

message::OutcomeAnswer noAnswer(std::string_view why) {
  message::OutcomeAnswer answer;
  answer.failure = why;
  return answer;
}

std::string_view describe(envoy::CalloutStart result) {
  switch (result) {
    case envoy::CalloutStart::Ok:
      break;
    case envoy::CalloutStart::MissingHeader:
      return "Envoy did not accept the question: a header is missing";
    case envoy::CalloutStart::NoSuchCluster:
      return "Envoy has no such cluster";
    case envoy::CalloutStart::DuplicateId:
    case envoy::CalloutStart::CannotCreate:
      return "Envoy could not send the question";
  }
  return "";
}

int statusOf(std::string_view text) {
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

}  // namespace

// --- One config ---------------------------------------------------------------------------------

void ConfigAsker::ask(Pending pending) {
  const runtime::Question& question = pending.question;
  std::vector<envoy::Field> headers = {
      {":method", question.method}, {":path", question.path}, {"host", question.authority}};
  for (const auto& [name, value] : question.headers) {
    headers.emplace_back(name, value);
  }
  const envoy::SideRequestStart start = handle_.startSideStream(
      {.cluster = question.cluster, .headers = headers, .body = {}, .timeout = question.timeout},
      /*end=*/true);
  if (start.ok()) {
    open_.emplace(start.id, Open{.pending = std::move(pending), .answer = {}});
  } else {
    pending.answered(noAnswer(describe(start.result)));
  }
}

std::vector<ConfigAsker::Pending> ConfigAsker::takeOpen() {
  std::vector<Pending> taken;
  taken.reserve(open_.size());
  // The reset hook runs inside the call: it finds nothing any more.
  for (auto& [id, open] : std::exchange(open_, {})) {
    handle_.resetSideStream(id);
    taken.push_back(std::move(open.pending));
  }
  return taken;
}

void ConfigAsker::onSideHeaders(uint64_t id, std::span<const envoy::Field> headers, bool /*end*/) {
  const auto found = open_.find(id);
  if (found == open_.end()) {
    return;
  }
  message::OutcomeAnswer& answer = found->second.answer;
  for (const envoy::Field& field : headers) {
    if (field.nameView() == ":status") {
      answer.status = statusOf(field.valueView());
    } else if (!field.nameView().starts_with(':')) {
      answer.headers.emplace_back(field.nameView(), field.valueView());
    }
  }
}

void ConfigAsker::onSideData(uint64_t id, std::span<const envoy::raw::Bytes> data, bool /*end*/) {
  const auto found = open_.find(id);
  if (found == open_.end()) {
    return;
  }
  const size_t limit = found->second.pending.question.max_answer_bytes;
  std::string& body = found->second.answer.body;
  for (const envoy::raw::Bytes& chunk : data) {
    const std::string_view bytes = envoy::toView(chunk);
    if (bytes.size() > limit - body.size()) {
      finish(id, noAnswer(fmt::format("the answer has more than {} bytes", limit)));
      return handle_.resetSideStream(id);
    }
    body += bytes;
  }
}

void ConfigAsker::onSideComplete(uint64_t id) {
  if (const auto found = open_.find(id); found != open_.end()) {
    finish(id, std::move(found->second.answer));
  }
}

void ConfigAsker::onSideReset(uint64_t id, envoy::SideStreamReset /*reason*/) {
  finish(id, noAnswer("no connection, a reset, or no answer in time"));
}

void ConfigAsker::finish(uint64_t id, message::OutcomeAnswer answer) {
  const auto found = open_.extract(id);
  if (!found.empty()) {
    found.mapped().pending.answered(std::move(answer));
  }
}

// --- All configs --------------------------------------------------------------------------------

SharedAsker& SharedAsker::ofProcess() {
  static auto* const asker = new SharedAsker();
  return *asker;
}

void SharedAsker::attach(std::shared_ptr<ConfigAsker> asker,
                         std::shared_ptr<envoy::Mailbox> mailbox) {
  const std::lock_guard lock(mutex_);
  const Config added{.asker = std::move(asker), .mailbox = std::move(mailbox)};
  for (const Config& config : configs_) {
    for (ConfigAsker::Pending& pending : config.asker->takeOpen()) {
      post(added, std::move(pending));
    }
  }
  configs_.push_back(added);
}

void SharedAsker::detach(const ConfigAsker& asker) {
  const std::lock_guard lock(mutex_);
  std::erase_if(configs_, [&](const Config& config) { return config.asker.get() == &asker; });
}

void SharedAsker::ask(runtime::Question question, Answered answered) {
  const std::lock_guard lock(mutex_);
  if (configs_.empty()) {
    return answered(noAnswer("Envoy has no config of this filter"));
  }
  post(configs_.back(), {.question = std::move(question), .answered = std::move(answered)});
}

// If the config is destroyed before the task runs, the question is lost, and asked again.
void SharedAsker::post(const Config& config, ConfigAsker::Pending pending) {
  config.mailbox->post([this, asker = config.asker, pending = std::move(pending)]() mutable {
    askThrough(*asker, std::move(pending));
  });
}

void SharedAsker::askThrough(ConfigAsker& asker, ConfigAsker::Pending pending) {
  {
    const std::lock_guard lock(mutex_);
    if (!configs_.empty() && configs_.back().asker.get() != &asker) {
      return post(configs_.back(), std::move(pending));
    }
  }
  // It is still the newest: configs are added on this thread.
  asker.ask(std::move(pending));
}

}  // namespace idempotency::filter
