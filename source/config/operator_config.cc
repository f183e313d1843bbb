#include "source/config/operator_config.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>

#include "api/idempotency/v1/idempotency.pb.h"
#include "source/config/config_check.h"
#include "source/config/field_errors.h"
#include "source/config/json_message.h"
#include "source/config/store_config.h"

namespace idempotency::config {
namespace {

using namespace std::chrono_literals;

constexpr size_t MaxSources = 8;
constexpr size_t MaxShown = 64;
constexpr size_t MaxWebhookKeys = 16;
constexpr size_t LongestPath = 256;

std::vector<protocol::NameSource> readActor(const v1::OperatorFilterConfig& message,
                                            FieldErrors& errors) {
  const auto& given = message.actor().sources();
  if (given.empty()) {
    if (!message.read_only()) {
      errors.add("actor.sources",
                 "required, because every change is audited with its actor; list 1 to 8 sources, "
                 "or set read_only");
    }
    return {};
  }
  checkRange("actor.sources (entries)", static_cast<uint64_t>(given.size()), 1, MaxSources, errors);
  std::vector<protocol::NameSource> sources;
  for (int i = 0; i < given.size(); ++i) {
    const std::string path = indexPath("actor.sources", static_cast<size_t>(i));
    sources.push_back(checkSource(path, given[i], errors));
    if (given[i].has_fixed()) {
      errors.add(joinPath(path, "fixed"), "not allowed: the audit must show who made a change");
    }
  }
  return sources;
}

// Without a query. An empty one was not set.
std::string readPath(std::string_view path, const std::string& value, FieldErrors& errors) {
  checkText(path, value, 1, LongestPath, errors);
  if (!value.empty() &&
      (!value.starts_with('/') || value.find_first_of("?# ") != std::string::npos)) {
    errors.add(path, quoteForError(value), "a path that begins with a slash");
  }
  return value;
}

std::string readPrefix(const std::string& value, FieldErrors& errors) {
  if (value.ends_with('/')) {
    errors.add("prefix", quoteForError(value),
               "a path that does not end with a slash, such as /idempotency");
  }
  return readPath("prefix", value, errors);
}

std::vector<std::string> readShown(const v1::OperatorFilterConfig& message, FieldErrors& errors) {
  checkRange("show_responses (entries)", static_cast<uint64_t>(message.show_responses_size()), 0,
             MaxShown, errors);
  std::vector<std::string> names;
  for (int i = 0; i < message.show_responses_size(); ++i) {
    names.push_back(checkName(indexPath("show_responses", static_cast<size_t>(i)),
                              message.show_responses(i), errors));
  }
  return names;
}

protocol::WebhookFormat formatOf(v1::Webhook::Format format) {
  switch (format) {
    case v1::Webhook::STRIPE:
      return protocol::WebhookFormat::Stripe;
    case v1::Webhook::STANDARD_WEBHOOKS:
      return protocol::WebhookFormat::StandardWebhooks;
    default:  // Protobuf adds values of its own.
      return protocol::WebhookFormat::Generic;
  }
}

std::vector<protocol::WebhookKeySettings> readKeys(const v1::Webhook& message,
                                                   FieldErrors& errors) {
  if (message.unsigned_() != (message.keys_size() == 0)) {
    errors.add("webhook.keys", message.unsigned_()
                                   ? "not used with unsigned; omit one of the two"
                                   : "required; list 1 to 16 keys, or set unsigned: true if Envoy "
                                     "authenticates the senders");
    return {};
  }
  checkRange("webhook.keys (entries)", static_cast<uint64_t>(message.keys_size()), 0,
             MaxWebhookKeys, errors);
  std::vector<protocol::WebhookKeySettings> keys;
  std::set<std::string> ids;
  for (int i = 0; i < message.keys_size(); ++i) {
    const std::string path = indexPath("webhook.keys", static_cast<size_t>(i));
    const v1::WebhookKey& key = message.keys(i);
    checkKeyId(joinPath(path, "id"), key.id(), errors);
    if (!ids.insert(key.id()).second) {
      errors.add(joinPath(path, "id"), fmt::format("duplicate id {}", quoteForError(key.id())));
    }
    keys.push_back({key.id(), checkFile(joinPath(path, "file"), key.file(), errors)});
  }
  return keys;
}

protocol::WebhookSettings readWebhook(const v1::Webhook& message, FieldErrors& errors) {
  protocol::WebhookSettings settings;
  settings.path = readPath("webhook.path", message.path(), errors);
  settings.format = formatOf(message.format());
  settings.keys = readKeys(message, errors);
  if (message.has_tolerance()) {
    settings.tolerance = checkDuration("webhook.tolerance", message.tolerance(), 1s, 1h, errors);
  }
  return settings;
}

void readLimits(const v1::OperatorLimits& message, protocol::OperatorSettings& settings,
                FieldErrors& errors) {
  if (message.has_max_request_bytes()) {
    settings.max_request_bytes = checkRange("limits.max_request_bytes", message.max_request_bytes(),
                                            1024, uint64_t{128} << 20, errors);
  }
  if (message.has_max_waiting()) {
    settings.max_waiting = static_cast<uint32_t>(
        checkRange("limits.max_waiting", message.max_waiting(), 1, 10'000, errors));
  }
}

// Otherwise the webhook would hide a part of the API.
void checkPaths(const protocol::OperatorSettings& settings, FieldErrors& errors) {
  if (settings.webhook.has_value() &&
      settings.webhook->path.starts_with(settings.prefix + "/v1/")) {
    errors.add("webhook.path", quoteForError(settings.webhook->path),
               "a path outside of the API's own paths");
  }
}

}  // namespace

absl::StatusOr<OperatorConfig> loadOperatorConfig(std::string_view json) {
  FieldErrors errors;
  v1::OperatorFilterConfig message;
  readJson(json, message, errors);
  if (!errors.empty()) {
    return errors.status();
  }
  OperatorConfig config;
  protocol::OperatorSettings& settings = config.settings;
  settings.store = readStore(message.store(), errors);
  config.actor_sources = readActor(message, errors);
  settings.read_only = message.read_only();
  settings.show_responses = readShown(message, errors);
  if (message.has_prefix()) {
    settings.prefix = readPrefix(message.prefix(), errors);
  }
  if (message.has_webhook()) {
    settings.webhook = readWebhook(message.webhook(), errors);
  }
  readLimits(message.limits(), settings, errors);
  checkPaths(settings, errors);
  if (!errors.empty()) {
    return errors.status();
  }
  return config;
}

}  // namespace idempotency::config
