#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <absl/status/statusor.h>

#include "source/operator_api/api_answer.h"
#include "source/operator_api/encode.h"
#include "source/operator_api/routing.h"
#include "source/operator_api/signature.h"
#include "source/protocol/settings.h"
#include "source/store/operator_store.h"

namespace idempotency::operator_api {

// What the API reads of a request's headers.
struct RequestHead {
  std::string method;
  std::string path;  // With its query.
  std::string content_type;
  std::string content_length;
  std::string sec_fetch_site;        // Empty: not sent by a browser, or by an old one.
  std::optional<std::string> actor;  // None: it cannot be determined.
  SignatureHeaders signature;
};

// What the headers alone decide.
struct HeadOutcome {
  std::string_view endpoint;  // For statistics: one of a few words.
  // An answer, or the target of the request, whose body is to be read.
  std::variant<ApiAnswer, Target> next;
};

// What remains of a request: it blocks, on the store's thread. An error is one of the store.
using StoreCall = std::function<absl::StatusOr<ApiAnswer>(store::OperatorStore&)>;

// The keys that webhooks are signed with, as they are now.
using CurrentKeys = std::function<std::shared_ptr<const std::vector<WebhookKey>>()>;

// The operators' API: requests in, calls of the store and answers out. Immutable, so any thread may
// use it. Nothing here blocks.
class Api {
public:
  // `keys` is needed with a webhook that is signed.
  Api(protocol::OperatorSettings settings, CurrentKeys keys)
      : settings_(std::move(settings)), keys_(std::move(keys)) {}

  HeadOutcome onHead(const RequestHead& head) const;

  // With the whole body.
  std::variant<ApiAnswer, StoreCall> onRequest(const Target& target, const RequestHead& head,
                                               std::string_view body) const;

  const protocol::OperatorSettings& settings() const { return settings_; }

private:
  // None: the request goes on.
  std::optional<ApiAnswer> decideOnHead(Endpoint endpoint, const RequestHead& head) const;
  std::optional<ApiAnswer> checkChange(const RequestHead& head) const;
  std::optional<ApiAnswer> checkBody(const RequestHead& head) const;
  std::variant<ApiAnswer, StoreCall> onGet(const Target& target) const;
  std::variant<ApiAnswer, StoreCall> onChange(const Target& target, const RequestHead& head,
                                              std::string_view body) const;
  std::variant<ApiAnswer, StoreCall> onPurge(const RequestHead& head, std::string_view body) const;
  std::variant<ApiAnswer, StoreCall> onWebhook(const RequestHead& head,
                                               std::string_view body) const;
  SignatureResult verify(const RequestHead& head, std::string_view body) const;
  ShowResponse showResponse(const std::string& operation) const;

  const protocol::OperatorSettings settings_;
  const CurrentKeys keys_;
};

}  // namespace idempotency::operator_api
