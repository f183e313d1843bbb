#include "test/fuzz/filter/upstream.h"

#include <array>
#include <fmt/format.h>

namespace idempotency::fuzz {
namespace {

constexpr UpstreamField Cookies[] = {{"set-cookie", "secret=1", false},
                                     {"connection", "x-hop", false},
                                     {"x-hop", "1", false},
                                     {"x-kept", "a"},
                                     {"x-kept", "b"}};
constexpr UpstreamField Events[] = {{"content-type", "text/event-stream"}};
constexpr UpstreamField Announced[] = {{"content-length", "1001", false}};
constexpr UpstreamField Grpc[] = {{"content-type", "application/grpc"}};
constexpr UpstreamField GrpcRefusal[] = {{"content-type", "application/grpc"},
                                         {"grpc-status", "14"}};
constexpr UpstreamField Forged[] = {{"idempotent-replayed", "true", false},
                                    {"idempotency-stored", "maybe", false},
                                    {"idempotency-enforced", "maybe", false},
                                    {"idempotency-key-expires", "never", false},
                                    {"access-control-allow-origin", "*"}};
constexpr UpstreamField Unsafe[] = {{"x-split", "a\r\nb"}};
constexpr UpstreamField SaysNotRun[] = {{"idempotency-outcome", "not-run", false}};
constexpr UpstreamField SaysRetryable[] = {{"idempotency-outcome", "retryable", false}};
constexpr UpstreamField SaysCompleted[] = {{"idempotency-outcome", "completed", false}};
constexpr UpstreamField SaysUnknown[] = {{"idempotency-outcome", "unknown", false}};
constexpr UpstreamField SaysNonsense[] = {{"idempotency-outcome", "fine", false}};
constexpr UpstreamField PlainText[] = {{"content-type", "text/plain"}};
constexpr UpstreamField Overloaded[] = {{"content-type", "text/plain"},
                                        {"x-envoy-overloaded", "true", false}};
constexpr UpstreamField SaysTerminated[] = {{"proxy-status", "side; error=connection_terminated"}};
constexpr UpstreamField SaysTimeout[] = {{"proxy-status", "side; error=http_response_timeout"}};
constexpr UpstreamField SaysRefused[] = {{"proxy-status", "side; error=connection_refused"}};
constexpr UpstreamField SaysDenied[] = {{"proxy-status", "side; error=http_request_denied"}};
constexpr UpstreamField EnvoySaysRefused[] = {
    {"proxy-status",
     "side; error=connection_refused; "
     "details=\"upstream_reset_before_response_started{remote_connection_failure}; UF,URX\""}};
constexpr UpstreamField Counted[] = {{"x-envoy-attempt-count", "2", false}};

constexpr std::array Heads = {
    UpstreamHead{.name = "200"},
    UpstreamHead{.name = "201 with cookies", .status = 201, .fields = Cookies},
    UpstreamHead{.name = "503", .status = 503},
    UpstreamHead{.name = "401", .status = 401},
    UpstreamHead{.name = "204", .status = 204},
    UpstreamHead{.name = "500", .status = 500},
    UpstreamHead{.name = "404", .status = 404},
    UpstreamHead{.name = "events", .fields = Events, .endless = true},
    UpstreamHead{.name = "long", .fields = Announced, .endless = true},
    UpstreamHead{.name = "grpc", .fields = Grpc},
    UpstreamHead{.name = "grpc refusal", .fields = GrpcRefusal, .grpc = "14"},
    UpstreamHead{.name = "429", .status = 429},
    UpstreamHead{.name = "forged", .fields = Forged},
    UpstreamHead{.name = "unsafe", .fields = Unsafe, .unstorable = true},
    UpstreamHead{.name = "403 after a retry", .status = 403, .attempts = 2},
    UpstreamHead{.name = "503 after a retry", .status = 503, .attempts = 2},
    UpstreamHead{.name = "foreign", .attempts = 0, .foreign = true},
    UpstreamHead{.name = "302", .status = 302},
    UpstreamHead{.name = "408", .status = 408},
    UpstreamHead{.name = "502", .status = 502},
    UpstreamHead{.name = "504", .status = 504},
    UpstreamHead{.name = "501", .status = 501},
    UpstreamHead{.name = "599", .status = 599},
    UpstreamHead{.name = "425", .status = 425},
    UpstreamHead{.name = "407", .status = 407},
    UpstreamHead{.name = "500 after a retry", .status = 500, .attempts = 2},
    UpstreamHead{.name = "429 after a retry", .status = 429, .attempts = 3},
    UpstreamHead{.name = "200 after a retry", .attempts = 2},
    UpstreamHead{.name = "404 after a retry", .status = 404, .attempts = 2},
    UpstreamHead{.name = "declares not-run",
                 .status = 500,
                 .fields = SaysNotRun,
                 .declared = Declared::NotRun},
    UpstreamHead{
        .name = "declares retryable", .fields = SaysRetryable, .declared = Declared::Retryable},
    UpstreamHead{.name = "declares completed",
                 .status = 503,
                 .fields = SaysCompleted,
                 .declared = Declared::Completed},
    UpstreamHead{.name = "declares unknown",
                 .status = 500,
                 .fields = SaysUnknown,
                 .declared = Declared::Unknown},
    UpstreamHead{.name = "declares nonsense",
                 .status = 503,
                 .fields = SaysNonsense,
                 .declared = Declared::Nonsense},
    UpstreamHead{.name = "declares not-run after a retry",
                 .status = 503,
                 .fields = SaysNotRun,
                 .attempts = 2,
                 .declared = Declared::NotRun},
    UpstreamHead{.name = "proxy timed out",
                 .status = 504,
                 .fields = PlainText,
                 .proxy_text = "upstream request timeout"},
    UpstreamHead{.name = "proxy lost its connection",
                 .status = 503,
                 .fields = PlainText,
                 .proxy_text = "upstream connect error or disconnect/reset before headers. reset "
                               "reason: connection termination"},
    UpstreamHead{.name = "proxy was refused",
                 .status = 503,
                 .fields = PlainText,
                 .proxy_text = "upstream connect error or disconnect/reset before headers. reset "
                               "reason: remote connection failure, transport failure reason: "
                               "delayed connect error: Connection refused",
                 .not_reached = true},
    UpstreamHead{.name = "proxy tried again and was refused",
                 .status = 503,
                 .fields = PlainText,
                 .proxy_text = "upstream connect error or disconnect/reset before headers. retried "
                               "and the latest reset reason: remote connection failure, transport "
                               "failure reason: delayed connect error: Connection refused"},
    UpstreamHead{.name = "proxy has too many requests",
                 .status = 503,
                 .fields = Overloaded,
                 .proxy_text = "upstream connect error or disconnect/reset before headers. reset "
                               "reason: overflow",
                 .not_reached = true},
    UpstreamHead{.name = "proxy tried and finds no host",
                 .status = 503,
                 .fields = PlainText,
                 .proxy_text = "no healthy upstream"},
    UpstreamHead{.name = "proxy denies it",
                 .status = 403,
                 .fields = PlainText,
                 .proxy_text = "RBAC: access denied",
                 .not_reached = true},
    UpstreamHead{.name = "proxy says that it lost its connection",
                 .status = 503,
                 .fields = SaysTerminated,
                 .proxy_text = "sorry"},
    UpstreamHead{.name = "proxy says that it timed out",
                 .status = 500,
                 .fields = SaysTimeout,
                 .proxy_text = ""},
    UpstreamHead{.name = "proxy says that it was refused",
                 .status = 503,
                 .fields = SaysRefused,
                 .proxy_text = "sorry"},
    UpstreamHead{.name = "proxy says that it denies it",
                 .status = 503,
                 .fields = SaysDenied,
                 .proxy_text = "sorry",
                 .not_reached = true},
    UpstreamHead{.name = "Envoy behind says that it was refused at last",
                 .status = 503,
                 .fields = EnvoySaysRefused,
                 .proxy_text = "sorry"},
    UpstreamHead{.name = "503 of the second try behind",
                 .status = 503,
                 .fields = Counted,
                 .sent_before = true},
};

constexpr uint64_t UpstreamTimeout = uint64_t{1} << 2;
constexpr uint64_t RemoteReset = uint64_t{1} << 4;

constexpr std::array Replies = {
    LocalReply{504, "response_timeout"},
    LocalReply{.code = 503, .details = "no_healthy_upstream", .never_sent = true},
    LocalReply{.code = 503,
               .details = "upstream_reset_before_response_started{remote_connection_failure|"
                          "delayed_connect_error:_Connection_refused}",
               .never_sent = true,
               .body = "connection refused"},
    LocalReply{.code = 503,
               .details = "upstream_reset_before_response_started{remote_connection_failure}",
               .attempts = 2},
    LocalReply{503, "upstream_reset_before_response_started{connection_termination}"},
    LocalReply{.code = 502,
               .details = "upstream_reset_after_response_started{protocol_error}",
               .body = "broken"},
    LocalReply{.code = 500, .details = "response_payload_too_large", .cut_by_envoy = true},
    LocalReply{504, "stream_idle_timeout"},
    LocalReply{504, "max_duration_timeout"},
    LocalReply{.code = 403,
               .details = "rbac_access_denied_matched_policy[none]",
               .attempts = 0,
               .never_sent = true,
               .body = "denied"},
    LocalReply{.code = 403, .details = "rbac_access_denied_matched_policy[none]", .attempts = 1},
    LocalReply{.code = 429, .details = "request_rate_limited", .attempts = 0, .never_sent = true},
    LocalReply{.code = 503,
               .details = "upstream_reset_before_response_started{overflow}",
               .never_sent = true},
    LocalReply{.code = 503,
               .details = "upstream_reset_before_response_started{remote_refused_stream_reset}",
               .flags = RemoteReset},
    LocalReply{.code = 503, .details = "no_healthy_upstream", .flags = UpstreamTimeout},
    LocalReply{500, ""},
    LocalReply{.code = 503, .details = "no_healthy_upstream", .attempts = 2},
    LocalReply{504, "upstream_per_try_timeout"},
};

constexpr std::array Departures = {
    "downstream_remote_disconnect",
    "http2.remote_reset",
    "downstream_local_disconnect(filter_chain_is_being_removed)",
    "internal_redirect",
    "",
};

}  // namespace

std::span<const UpstreamHead> upstreamHeads() {
  return Heads;
}

protocol::FieldList upstreamTrailers(size_t which) {
  static const std::array<protocol::FieldList, TrailersCount> Trailers = {
      protocol::FieldList{{"checksum", "1"}}, protocol::FieldList{{"grpc-status", "0"}},
      protocol::FieldList{{"grpc-status", "14"}, {"grpc-message", "later"}}};
  return Trailers.at(which);
}

std::string upstreamPiece(size_t which, uint64_t execution, size_t number) {
  static constexpr std::array<size_t, BodyPieceCount> Sizes = {6, 0, 600, 2000};
  const size_t size = Sizes.at(which);
  std::string text = size == 0 ? "" : fmt::format("{}.{} ", execution, number);
  text.resize(size, 'x');
  return text;
}

std::span<const LocalReply> localReplies() {
  return Replies;
}

std::span<const char* const> departures() {
  return Departures;
}

}  // namespace idempotency::fuzz
