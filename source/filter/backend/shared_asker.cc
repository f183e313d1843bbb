#include "source/filter/backend/shared_asker.h"

#include <charconv>
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

std::string_view describe(envoy::CalloutResult result) {
  switch (result) {
    case envoy::CalloutResult::Success:
      break;
    case envoy::CalloutResult::Reset:
      return "no connection, a reset, or no answer in time";
    case envoy::CalloutResult::ResponseTooLarge:
      return "the answer is larger than Envoy's buffer";
  }
  return "";
}

int statusOf(std::string_view text) {
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

message::OutcomeAnswer answerOf(std::span<const envoy::Field> headers,
                                std::span<const envoy::raw::Bytes> body) {
  message::OutcomeAnswer answer;
  for (const envoy::Field& field : headers) {
    if (field.nameView() == ":status") {
      answer.status = statusOf(field.valueView());
    } else if (!field.nameView().starts_with(':')) {
      answer.headers.emplace_back(field.nameView(), field.valueView());
    }
  }
  for (const envoy::raw::Bytes& chunk : body) {
    answer.body += envoy::toView(chunk);
  }
  return answer;
}

}  // namespace

void ConfigAsker::ask(const runtime::Question& question, runtime::Asker::Answered answered) {
  std::vector<envoy::Field> headers = {
      {":method", question.method}, {":path", question.path}, {"host", question.authority}};
  for (const auto& [name, value] : question.headers) {
    headers.emplace_back(name, value);
  }
  const envoy::SideRequestStart start = handle_.startCallout(
      {.cluster = question.cluster, .headers = headers, .body = {}, .timeout = question.timeout});
  if (start.ok()) {
    open_.emplace(start.id, std::move(answered));
  } else {
    answered(noAnswer(describe(start.result)));
  }
}

void ConfigAsker::onDone(uint64_t id, envoy::CalloutResult result,
                         std::span<const envoy::Field> headers,
                         std::span<const envoy::raw::Bytes> body) {
  auto found = open_.extract(id);
  if (found.empty()) {
    return;
  }
  found.mapped()(result == envoy::CalloutResult::Success ? answerOf(headers, body)
                                                         : noAnswer(describe(result)));
}

void SharedAsker::attach(std::shared_ptr<ConfigAsker> asker,
                         std::shared_ptr<envoy::Mailbox> mailbox) {
  const std::lock_guard lock(mutex_);
  configs_.push_back({std::move(asker), std::move(mailbox)});
}

void SharedAsker::detach(const ConfigAsker& asker) {
  const std::lock_guard lock(mutex_);
  std::erase_if(configs_, [&](const Config& config) { return config.asker.get() == &asker; });
}

void SharedAsker::ask(runtime::Question question, Answered answered) {
  Config config;
  {
    const std::lock_guard lock(mutex_);
    if (!configs_.empty()) {
      config = configs_.back();
    }
  }
  if (config.mailbox == nullptr) {
    return answered(noAnswer("Envoy has no config of this filter"));
  }
  // If the config goes before the task runs, the question is lost, and asked again.
  config.mailbox->post([asker = config.asker, question = std::move(question),
                        answered = std::move(answered)] { asker->ask(question, answered); });
}

}  // namespace idempotency::filter
