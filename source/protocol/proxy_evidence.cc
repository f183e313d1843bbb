#include "source/protocol/proxy_evidence.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "source/http/grpc.h"
#include "source/http/header_names.h"
#include "source/key/structured_field.h"

namespace idempotency::protocol {
namespace {

using enum ProxyEvidence;

// --- Proxy-Status (RFC 9209) -------------------------------------------------------------------

struct ErrorTypeRow {
  std::string_view type;
  ProxyEvidence evidence;
};

// Every type of RFC 9209 §2.3, in the order of its sections. "Not sent" are those that turn the
// request away before any attempt. A type about the next hop, such as "connection_refused", is
// about the last attempt of a proxy that may have made several.
constexpr std::array ErrorTypes = {
    ErrorTypeRow{"dns_timeout", InDoubt},
    ErrorTypeRow{"dns_error", InDoubt},
    ErrorTypeRow{"destination_not_found", InDoubt},
    ErrorTypeRow{"destination_unavailable", InDoubt},
    ErrorTypeRow{"destination_ip_prohibited", InDoubt},
    ErrorTypeRow{"destination_ip_unroutable", InDoubt},
    ErrorTypeRow{"connection_refused", InDoubt},
    ErrorTypeRow{"connection_terminated", InDoubt},
    ErrorTypeRow{"connection_timeout", InDoubt},
    ErrorTypeRow{"connection_read_timeout", InDoubt},
    ErrorTypeRow{"connection_write_timeout", InDoubt},
    ErrorTypeRow{"connection_limit_reached", InDoubt},
    ErrorTypeRow{"tls_protocol_error", InDoubt},
    ErrorTypeRow{"tls_certificate_error", InDoubt},
    ErrorTypeRow{"tls_alert_received", InDoubt},
    ErrorTypeRow{"http_request_error", NotSent},
    ErrorTypeRow{"http_request_denied", NotSent},
    ErrorTypeRow{"http_response_incomplete", InDoubt},
    ErrorTypeRow{"http_response_header_section_size", InDoubt},
    ErrorTypeRow{"http_response_header_size", InDoubt},
    ErrorTypeRow{"http_response_body_size", InDoubt},
    ErrorTypeRow{"http_response_trailer_section_size", InDoubt},
    ErrorTypeRow{"http_response_trailer_size", InDoubt},
    ErrorTypeRow{"http_response_transfer_coding", InDoubt},
    ErrorTypeRow{"http_response_content_coding", InDoubt},
    ErrorTypeRow{"http_response_timeout", InDoubt},
    ErrorTypeRow{"http_upgrade_failed", InDoubt},
    ErrorTypeRow{"http_protocol_error", InDoubt},
    ErrorTypeRow{"proxy_internal_response", NotSent},
    ErrorTypeRow{"proxy_internal_error", InDoubt},
    ErrorTypeRow{"proxy_configuration_error", InDoubt},
    ErrorTypeRow{"proxy_loop_detected", InDoubt},
};

// What one member of Proxy-Status says. `first`: no proxy nearer to the service took part.
ProxyEvidence judgeMember(const key::ListMember& member, bool first) {
  const key::BareItem* error = member.parameter("error");
  if (error == nullptr) {
    return None;
  }
  if (error->kind != key::BareItem::Kind::Token || !first) {
    return InDoubt;
  }
  return proxyErrorEvidence(error->text);
}

ProxyEvidence judgeMembers(const std::vector<key::ListMember>& members) {
  ProxyEvidence found = None;
  for (size_t i = 0; i < members.size(); ++i) {
    // The least certain member decides: the values are in that order.
    found = std::min(found, judgeMember(members[i], i == 0));
  }
  return found;
}

// --- Envoy ---------------------------------------------------------------------------------------

// Measured on 1.39 and 1.40 (test_second_proxy.py). A text without a status: Envoy uses it with
// several.
constexpr std::string_view ResetText =
    "upstream connect error or disconnect/reset before headers. reset reason: ";
constexpr std::string_view ResetAgainText =
    "upstream connect error or disconnect/reset before headers. retried and the latest reset "
    "reason: ";

// Reasons for which the first and only attempt was not sent. A transport failure reason may follow.
// A refused stream is none of them: see NeverSentRows in outcome.cc.
constexpr std::array<std::string_view, 4> UnsentReasons = {
    "remote connection failure",
    "local connection failure",
    "connection timeout",
    "overflow",
};

struct TextRow {
  std::string_view text;  // The whole of it.
  ProxyEvidence evidence;
};

constexpr std::array EnvoyTexts = {
    TextRow{"upstream request timeout", InDoubt},
    TextRow{"stream timeout", InDoubt},
    TextRow{"upstream max stream duration reached", InDoubt},
    TextRow{"downstream duration timeout", InDoubt},
    TextRow{"request timeout", InDoubt},
    TextRow{"envoy overloaded", InDoubt},
    // A retry that finds no host says the same as a first attempt.
    TextRow{"no healthy upstream", InDoubt},
    // Filters before the router, which has not begun.
    TextRow{"RBAC: access denied", NotSent},
    TextRow{"fault filter abort", NotSent},
    TextRow{"local_rate_limited", NotSent},
    TextRow{"maintenance mode", NotSent},
};

// None if it is no text of Envoy's.
ProxyEvidence judgeEnvoyText(std::string_view text) {
  if (text.starts_with(ResetAgainText)) {
    return InDoubt;
  }
  if (text.starts_with(ResetText)) {
    const std::string_view reason = text.substr(ResetText.size());
    const bool unsent =
        std::any_of(UnsentReasons.begin(), UnsentReasons.end(), [&](std::string_view known) {
          return reason.starts_with(known) &&
                 (reason.size() == known.size() || reason[known.size()] == ',');
        });
    return unsent ? NotSent : InDoubt;
  }
  for (const TextRow& row : EnvoyTexts) {
    if (text == row.text) {
      return row.evidence;
    }
  }
  return None;
}

// Envoy's own details in Proxy-Status: `via_upstream; URX`. The flags follow the semicolon.
bool isFromService(std::string_view details) {
  return details.starts_with("via_upstream");
}

bool hasEnvoyForm(std::string_view details) {
  const size_t end = details.rfind("; ");
  const std::string_view flags =
      end == std::string_view::npos ? std::string_view() : details.substr(end + 2);
  return !flags.empty() && std::all_of(flags.begin(), flags.end(),
                                       [](char c) { return (c >= 'A' && c <= 'Z') || c == ','; });
}

// --- Pages of other proxies --------------------------------------------------------------------

// nginx and what was made from it sign below a line; HAProxy, Varnish and Apache have sentences of
// their own; lighttpd has a head of its own; Go's TimeoutHandler answers while the handler is still
// running. No page says whether the request was sent: 403 may also be the verdict on a response.
constexpr std::array<std::string_view, 15> Pages = {
    "<hr><center>",
    "Varnish cache server",
    "Backend fetch failed",
    "The server is temporarily unable to service your",
    "The proxy server received an invalid",
    "The server encountered an internal error or",
    "You don't have permission to access this resource.",
    "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>",
    "<title>Timeout</title>",
    "No server is available to handle this request.",
    "The server didn't respond in time.",
    "The server returned an invalid or incomplete response.",
    "An internal server error occurred.",
    "Request forbidden by administrative rules.",
    "You have sent too many requests in a given amount of time.",
};

// Traefik's, where it has no server left.
constexpr std::string_view NoServerText = "no available server";

// Headers that a proxy sets on responses of its own alone: Linkerd, Kong.
constexpr std::array<std::string_view, 2> ProxyHeaders = {"l5d-proxy-error",
                                                          "x-kong-response-latency"};
// And the Server header of a load balancer that otherwise keeps the service's.
constexpr std::string_view LoadBalancer = "awselb/";

// --- All together ------------------------------------------------------------------------------

std::string_view valueOf(std::span<const FieldView> fields, std::string_view name) {
  for (const auto& [own, value] : fields) {
    if (own == name) {
      return value;
    }
  }
  return {};
}

void collect(std::span<const FieldView> fields, std::string_view name,
             std::vector<std::string_view>& lines) {
  for (const auto& [own, value] : fields) {
    if (own == name) {
      lines.push_back(value);
    }
  }
}

// Proxies that are an Envoy say so, unless they were told not to.
bool namesEnvoy(const ResponseText& response) {
  return http::toLower(valueOf(response.headers, "server")).find("envoy") != std::string::npos;
}

bool isPage(const ResponseText& response) {
  const std::string type = http::toLower(valueOf(response.headers, "content-type"));
  if (type.starts_with("text/plain")) {
    return response.text.starts_with(NoServerText);
  }
  return type.starts_with("text/html") &&
         std::any_of(Pages.begin(), Pages.end(), [&](std::string_view page) {
           return response.text.find(page) != std::string_view::npos;
         });
}

bool hasProxyHeader(const ResponseText& response) {
  return http::toLower(valueOf(response.headers, "server")).starts_with(LoadBalancer) ||
         std::any_of(response.headers.begin(), response.headers.end(), [](const FieldView& field) {
           return std::find(ProxyHeaders.begin(), ProxyHeaders.end(), field.first) !=
                  ProxyHeaders.end();
         });
}

// A text or a page that cannot be read: a proxy may have compressed it.
bool isCompressedText(const ResponseText& response) {
  const std::string_view coding = valueOf(response.headers, "content-encoding");
  const std::string type = http::toLower(valueOf(response.headers, "content-type"));
  return !coding.empty() && http::toLower(coding) != "identity" &&
         (type.starts_with("text/plain") || type.starts_with("text/html"));
}

// What an Envoy's local reply has, and what Envoy can be told to add to it.
constexpr std::array<std::string_view, 9> Own = {":status",      "connection",  "content-length",
                                                 "content-type", "date",        "server",
                                                 "proxy-status", "grpc-status", "grpc-message"};
constexpr std::array<std::string_view, 2> Added = {"via", "x-request-id"};

template <size_t size>
bool isOneOf(const std::array<std::string_view, size>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// There is nothing around it that an application adds: an Envoy's local reply looks so. Services
// send what Envoy may add, too: `with_added` is for where a mistake frees no key.
bool isBareEnvoyReply(const ResponseText& response, bool with_added) {
  const auto is_own = [&](const FieldView& field) {
    return field.first.starts_with("x-envoy-") || isOneOf(Own, field.first) ||
           (with_added && isOneOf(Added, field.first));
  };
  const std::string_view type = valueOf(response.headers, "content-type");
  return namesEnvoy(response) && (type.empty() || type == "text/plain" || http::isGrpc(type)) &&
         std::all_of(response.headers.begin(), response.headers.end(), is_own);
}

// What Envoy says of itself when it fails, also where it does not show its name: when it could not
// hold a response that a filter of its own wanted whole, say. Frameworks add a charset.
bool isEnvoyFailure(const ResponseText& response) {
  return response.text == "Internal Server Error" &&
         valueOf(response.headers, "content-type") == "text/plain";
}

// A local reply whose text was changed, or left out. A gRPC service's own errors look the same, but
// for the message.
bool isBareEnvoyText(const ResponseText& response) {
  return isBareEnvoyReply(response, true) &&
         (response.text.empty() || valueOf(response.headers, "content-type") == "text/plain");
}

// Envoy's Proxy-Status is about its last attempt, so that it proves nothing but that there were
// several.
ProxyEvidence judgeEnvoyStatus(const std::vector<key::ListMember>& members) {
  for (const key::ListMember& member : members) {
    const key::BareItem* details = member.parameter("details");
    if (member.parameter("error") != nullptr &&
        (details == nullptr || !isFromService(details->text))) {
      return InDoubt;
    }
  }
  return Retried;
}

bool isEnvoyStatus(const std::vector<key::ListMember>& members) {
  return std::any_of(members.begin(), members.end(), [](const key::ListMember& member) {
    const key::BareItem* details = member.parameter("details");
    return details != nullptr && hasEnvoyForm(details->text);
  });
}

// The members of Proxy-Status, none if there are none. Null: the field cannot be read.
std::optional<std::vector<key::ListMember>> proxyStatus(const ResponseText& response) {
  std::vector<std::string_view> lines;
  collect(response.headers, "proxy-status", lines);
  collect(response.trailers, "proxy-status", lines);
  return lines.empty() ? std::vector<key::ListMember>() : key::parseList(lines);
}

ProxyEvidence judgeProxyStatus(const ResponseText& response) {
  const std::optional<std::vector<key::ListMember>> members = proxyStatus(response);
  if (!members.has_value()) {
    return InDoubt;
  }
  const ProxyEvidence evidence = judgeMembers(*members);
  const bool by_envoy = namesEnvoy(response) || isEnvoyStatus(*members);
  return evidence != None && by_envoy ? judgeEnvoyStatus(*members) : evidence;
}

// A text speaks for the proxy that wrote it, not for those before it, nor for a service that passes
// it on, as gRPC services do with the errors that they get themselves. "Not sent" is believed where
// nothing shows any of these.
bool isAlone(const ResponseText& response) {
  if (!isBareEnvoyReply(response, false) ||
      http::isGrpc(valueOf(response.headers, "content-type"))) {
    return false;
  }
  const std::optional<std::vector<key::ListMember>> members = proxyStatus(response);
  if (!members.has_value() || members->size() > 1) {
    return false;
  }
  const key::BareItem* details = members->empty() ? nullptr : members->front().parameter("details");
  return details == nullptr || !isFromService(details->text);
}

ProxyEvidence judgeText(const ResponseText& response) {
  const ProxyEvidence evidence = judgeEnvoyText(response.text);
  return evidence == NotSent && !isAlone(response) ? InDoubt : evidence;
}

// What shows a proxy, but not what it did.
bool isProxyMade(const ResponseText& response) {
  return isPage(response) || hasProxyHeader(response) || isCompressedText(response) ||
         isBareEnvoyText(response) || isEnvoyFailure(response);
}

// Envoy counts its attempts for those who ask it to.
bool wasRetried(const ResponseText& response) {
  const std::string_view count = valueOf(response.headers, "x-envoy-attempt-count");
  return !count.empty() && count != "1";
}

}  // namespace

ProxyEvidence proxyErrorEvidence(std::string_view error_type) {
  const auto row = std::find_if(ErrorTypes.begin(), ErrorTypes.end(),
                                [&](const ErrorTypeRow& row) { return row.type == error_type; });
  return row == ErrorTypes.end() ? InDoubt : row->evidence;
}

ProxyEvidence proxyEvidence(const ResponseText& response) {
  if (!isError(response.status)) {
    return None;
  }
  ProxyEvidence evidence = judgeText(response);
  if (evidence == None) {
    evidence = judgeProxyStatus(response);
  }
  if (evidence == None && isProxyMade(response)) {
    evidence = InDoubt;
  }
  if (wasRetried(response)) {
    return evidence == None || evidence == Retried ? Retried : InDoubt;
  }
  return evidence;
}

}  // namespace idempotency::protocol
