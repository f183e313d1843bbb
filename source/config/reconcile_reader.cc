#include "source/config/reconcile_reader.h"

#include <fmt/format.h>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/config/duration_text.h"
#include "source/http/header_names.h"
#include "source/protocol/name_source.h"

namespace idempotency::config {
namespace {

using namespace std::chrono_literals;

constexpr size_t MaxEntries = 64;
constexpr size_t MaxOperations = 64;
constexpr size_t MaxHeaders = 32;
constexpr size_t MaxTextBytes = 4096;
constexpr uint64_t MaxBodyBytes = 64 << 20;
constexpr std::string_view Placeholders =
    "the placeholders {tenant}, {operation}, {key}, {attempt}";

protocol::QuestionTemplate readPath(const std::string& path, const std::string& text,
                                    FieldErrors& errors) {
  constexpr std::string_view Expected =
      "a path that begins with a slash, without fragment and space";
  if (text.empty()) {
    errors.add(path, fmt::format("required; set {}", Expected));
    return {};
  }
  checkText(path, text, 1, MaxTextBytes, errors);
  if (!text.starts_with('/') || text.find_first_of("# ") != std::string::npos) {
    errors.add(path, quoteForError(text), Expected);
  }
  const auto parsed = protocol::QuestionTemplate::parse(text);
  if (!parsed.has_value()) {
    errors.add(path, quoteForError(text), fmt::format("braces only around {}", Placeholders));
  }
  return parsed.value_or(protocol::QuestionTemplate());
}

std::string readMethod(const std::string& path, const std::string& method, FieldErrors& errors) {
  if (method != "GET" && method != "POST") {
    errors.add(path, quoteForError(method), "GET or POST");
  }
  return method;
}

std::string readHeaderName(const std::string& path, const std::string& given, FieldErrors& errors) {
  std::string name = http::toLower(given);
  if (given.empty()) {
    errors.add(path, "required; set a header name");
  } else if (http::isHostHeader(name)) {
    errors.add(path, fmt::format("{} is not set as a header; see authority", quoteForError(given)));
  } else if (!http::isToken(given) || given.size() > protocol::NameLimit ||
             name == "content-length" || name == "transfer-encoding") {
    errors.add(path, quoteForError(given), "the name of a header that a request may have");
  }
  return name;
}

// The value may be a secret, so errors do not show it.
protocol::QuestionTemplate readHeaderValue(const std::string& path, const std::string& text,
                                           FieldErrors& errors) {
  FieldErrors wrong;
  checkText(path, text, 0, MaxTextBytes, wrong);
  const auto parsed = protocol::QuestionTemplate::parse(text);
  if (!wrong.empty()) {
    errors.add(path, "another value (not shown)",
               fmt::format("at most {} bytes of printable ASCII", MaxTextBytes));
  } else if (!parsed.has_value()) {
    errors.add(path, "another value (not shown)",
               fmt::format("braces only around {}", Placeholders));
  }
  return parsed.value_or(protocol::QuestionTemplate());
}

std::vector<protocol::QuestionHeader> readHeaders(const std::string& path,
                                                  const v1::Reconcile& message,
                                                  FieldErrors& errors) {
  checkRange(fmt::format("{} (entries)", path), static_cast<uint64_t>(message.headers_size()), 0,
             MaxHeaders, errors);
  std::vector<protocol::QuestionHeader> headers;
  for (int i = 0; i < message.headers_size(); ++i) {
    const std::string entry = indexPath(path, static_cast<size_t>(i));
    headers.push_back(
        {readHeaderName(joinPath(entry, "name"), message.headers(i).name(), errors),
         readHeaderValue(joinPath(entry, "value"), message.headers(i).value(), errors)});
  }
  return headers;
}

std::optional<fingerprint::JsonPointer> readPointer(const std::string& path,
                                                    const std::string& text, FieldErrors& errors) {
  const auto pointer = fingerprint::JsonPointer::parse(text);
  if (!pointer.ok()) {
    errors.add(path, quoteForError(text), "a JSON Pointer (RFC 6901), such as \"/status\"");
    return std::nullopt;
  }
  return *pointer;
}

protocol::ResponsePointers readPointers(const std::string& path, const v1::OutcomeResponse& message,
                                        FieldErrors& errors) {
  protocol::ResponsePointers pointers;
  if (message.has_status_pointer()) {
    pointers.status =
        readPointer(joinPath(path, "status_pointer"), message.status_pointer(), errors);
  }
  if (message.has_headers_pointer()) {
    pointers.headers =
        readPointer(joinPath(path, "headers_pointer"), message.headers_pointer(), errors);
  }
  if (message.has_body_pointer()) {
    pointers.body = readPointer(joinPath(path, "body_pointer"), message.body_pointer(), errors);
  }
  return pointers;
}

void readQuestion(const std::string& path, const v1::Reconcile& message,
                  protocol::ReconcileSettings& settings, FieldErrors& errors) {
  settings.cluster = checkName(joinPath(path, "cluster"), message.cluster(), errors);
  settings.path = readPath(joinPath(path, "path"), message.path(), errors);
  if (message.has_method()) {
    settings.method = readMethod(joinPath(path, "method"), message.method(), errors);
  }
  settings.authority = settings.cluster;
  if (message.has_authority()) {
    settings.authority = checkName(joinPath(path, "authority"), message.authority(), errors);
  }
  settings.headers = readHeaders(joinPath(path, "headers"), message, errors);
  if (message.has_timeout()) {
    settings.timeout =
        checkDuration(joinPath(path, "timeout"), message.timeout(), 10ms, 60s, errors);
  }
}

void readTries(const std::string& path, const v1::Reconcile& message,
               protocol::ReconcileSettings& settings, FieldErrors& errors) {
  if (message.has_interval()) {
    settings.interval =
        checkDuration(joinPath(path, "interval"), message.interval(), 1s, 1h, errors);
  }
  if (message.has_max_interval()) {
    settings.max_interval =
        checkDuration(joinPath(path, "max_interval"), message.max_interval(), 1s, 24h, errors);
  }
  if (settings.interval > settings.max_interval) {
    errors.add(joinPath(path, "interval"), formatDuration(settings.interval),
               fmt::format("at most max_interval ({})", formatDuration(settings.max_interval)));
  }
  if (message.has_max_tries()) {
    settings.max_tries = static_cast<uint32_t>(
        checkRange(joinPath(path, "max_tries"), message.max_tries(), 1, 1000, errors));
  }
  if (message.has_max_parallel()) {
    settings.max_parallel = static_cast<uint32_t>(
        checkRange(joinPath(path, "max_parallel"), message.max_parallel(), 1, 100, errors));
  }
}

void readAnswerRules(const std::string& path, const v1::Reconcile& message,
                     protocol::ReconcileSettings& settings, FieldErrors& errors) {
  settings.absent_is_final = message.absent_is_final();
  if (message.has_absent_final_after()) {
    const std::string field = joinPath(path, "absent_final_after");
    settings.absent_final_after =
        checkDuration(field, message.absent_final_after(), 1s, 168h, errors);
    if (settings.absent_is_final) {
      errors.add(field, "cannot be combined with absent_is_final");
    }
  }
  settings.response = readPointers(joinPath(path, "response"), message.response(), errors);
  if (message.has_store_response()) {
    settings.store_response = message.store_response();
  }
  if (message.has_max_response_bytes()) {
    settings.max_response_bytes = checkRange(joinPath(path, "max_response_bytes"),
                                             message.max_response_bytes(), 0, MaxBodyBytes, errors);
  }
}

// Which entry has which operation; the empty name is "all others".
using Owners = std::map<std::string, std::string>;

void claim(const std::string& operation, const std::string& path, Owners& owners,
           FieldErrors& errors) {
  const auto [owner, is_new] = owners.emplace(operation, path);
  if (is_new) {
    return;
  }
  errors.add(path,
             operation.empty()
                 ? fmt::format("{} covers all other operations already; name the operations",
                               owner->second)
                 : fmt::format("{} is in {} already", quoteForError(operation), owner->second));
}

std::vector<std::string> readOperations(const std::string& path, const v1::Reconcile& message,
                                        Owners& owners, FieldErrors& errors) {
  const std::string field = joinPath(path, "operations");
  checkRange(fmt::format("{} (entries)", field), static_cast<uint64_t>(message.operations_size()),
             0, MaxOperations, errors);
  std::vector<std::string> operations;
  for (int i = 0; i < message.operations_size(); ++i) {
    const std::string entry = indexPath(field, static_cast<size_t>(i));
    operations.push_back(checkName(entry, message.operations(i), errors));
    claim(operations.back(), entry, owners, errors);
  }
  if (operations.empty()) {
    claim("", path, owners, errors);
  }
  return operations;
}

}  // namespace

std::vector<protocol::ReconcileSettings> readReconcile(const v1::FilterConfig& message,
                                                       FieldErrors& errors) {
  checkRange("reconcile (entries)", static_cast<uint64_t>(message.reconcile_size()), 0, MaxEntries,
             errors);
  std::vector<protocol::ReconcileSettings> entries;
  Owners owners;
  for (int i = 0; i < message.reconcile_size(); ++i) {
    const std::string path = indexPath("reconcile", static_cast<size_t>(i));
    const v1::Reconcile& entry = message.reconcile(i);
    protocol::ReconcileSettings settings;
    settings.operations = readOperations(path, entry, owners, errors);
    readQuestion(path, entry, settings, errors);
    readTries(path, entry, settings, errors);
    readAnswerRules(path, entry, settings, errors);
    entries.push_back(std::move(settings));
  }
  return entries;
}

}  // namespace idempotency::config
