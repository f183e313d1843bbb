#include "source/protocol/proxy_evidence.h"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace idempotency::protocol {
namespace {

using enum ProxyEvidence;

#define RESET "upstream connect error or disconnect/reset before headers. "

ProxyEvidence judge(int status, std::vector<FieldView> headers, std::string_view text = "") {
  return proxyEvidence({.status = status, .headers = headers, .text = text});
}

// A response of a service through an Envoy: most of them look so.
const std::vector<FieldView> ServiceHeaders = {{":status", "503"},
                                               {"content-type", "application/json"},
                                               {"x-request-id", "1"},
                                               {"server", "envoy"}};

TEST(ProxyEvidenceTest, ServicesAreNotSuspected) {
  EXPECT_EQ(judge(503, ServiceHeaders, R"({"error": "try again"})"), None);
  EXPECT_EQ(judge(503, {}, ""), None);
  EXPECT_EQ(judge(500, {{"server", "gunicorn"}, {"content-type", "text/html"}},
                  "<html><body><h1>Internal Server Error</h1></body></html>"),
            None);
  EXPECT_EQ(judge(503, {{"content-type", "text/plain"}}, "busy"), None);
  EXPECT_EQ(judge(503, {{"proxy-status", "cdn; received-status=503"}}), None);
}

TEST(ProxyEvidenceTest, OnlyErrorsAreJudged) {
  EXPECT_EQ(judge(200, {{"proxy-status", "p; error=connection_terminated"}}), None);
  EXPECT_EQ(judge(302, {}, "upstream request timeout"), None);
  EXPECT_EQ(judge(404, {{"proxy-status", "p; error=http_request_denied"}}), NotSent);
}

// --- Proxy-Status of proxies other than Envoy ----------------------------------------------------

// RFC 9209 §2.3, read by what each type says about the request: was it turned away before any
// attempt?
constexpr std::string_view SentNever[] = {
    "http_request_error",
    "http_request_denied",
    "proxy_internal_response",
};
// The first ten are about one attempt. A proxy that makes several tells of its last.
constexpr std::string_view SentPerhaps[] = {
    "dns_timeout",
    "dns_error",
    "destination_not_found",
    "destination_unavailable",
    "destination_ip_prohibited",
    "destination_ip_unroutable",
    "connection_refused",
    "connection_timeout",
    "connection_limit_reached",
    "tls_certificate_error",
    "connection_terminated",
    "connection_read_timeout",
    "connection_write_timeout",
    "tls_protocol_error",
    "tls_alert_received",
    "http_response_incomplete",
    "http_response_header_section_size",
    "http_response_header_size",
    "http_response_body_size",
    "http_response_trailer_section_size",
    "http_response_trailer_size",
    "http_response_transfer_coding",
    "http_response_content_coding",
    "http_response_timeout",
    "http_upgrade_failed",
    "http_protocol_error",
    "proxy_internal_error",
    "proxy_configuration_error",
    "proxy_loop_detected",
    "a_type_of_tomorrow",
};

TEST(ProxyEvidenceTest, ErrorTypesOfProxyStatus) {
  for (const std::string_view type : SentNever) {
    const std::string value = "proxy.example; error=" + std::string(type);
    EXPECT_EQ(judge(503, {{"proxy-status", value}}), NotSent) << type;
  }
  for (const std::string_view type : SentPerhaps) {
    const std::string value = "proxy.example; error=" + std::string(type);
    EXPECT_EQ(judge(503, {{"proxy-status", value}}), InDoubt) << type;
  }
}

TEST(ProxyEvidenceTest, ProxyStatusIsReadAsAStructuredField) {
  const auto status = [](std::string_view value) { return judge(503, {{"proxy-status", value}}); };
  EXPECT_EQ(status("p;error=http_request_denied;details=\"a; b, c\""), NotSent);
  EXPECT_EQ(status("\"a proxy\" ; error=http_request_denied"), InDoubt);  // No List: a space.
  EXPECT_EQ(status("\"a proxy\"; error=http_request_denied"), NotSent);
  EXPECT_EQ(status("p; details=\"error=http_request_denied\""), None);
  EXPECT_EQ(status("p; error=\"http_request_denied\""), InDoubt);  // A String is no type.
  EXPECT_EQ(status("p; error"), InDoubt);
  EXPECT_EQ(status("p; error=http_request_denied,"), InDoubt);
  EXPECT_EQ(status("p; Error=http_request_denied"), InDoubt);
  EXPECT_EQ(status("p; error=http_request_denied; error=connection_terminated"), InDoubt);
}

// The first member is the proxy nearest to the service.
TEST(ProxyEvidenceTest, SeveralProxies) {
  EXPECT_EQ(judge(503, {{"proxy-status", "inner; error=http_request_denied, outer"}}), NotSent);
  EXPECT_EQ(judge(503, {{"proxy-status", "inner; error=http_request_denied"},
                        {"proxy-status", "outer; received-status=503"}}),
            NotSent);
  EXPECT_EQ(judge(503, {{"proxy-status", "inner, outer; error=http_request_denied"}}), InDoubt);
  EXPECT_EQ(judge(503, {{"proxy-status",
                         "inner; error=http_request_denied, outer; error=connection_terminated"}}),
            InDoubt);
}

TEST(ProxyEvidenceTest, ProxyStatusMayComeInTrailers) {
  const std::vector<FieldView> trailers = {{"proxy-status", "p; error=http_response_incomplete"}};
  EXPECT_EQ(proxyEvidence({.status = 503, .trailers = trailers}), InDoubt);
}

// --- Envoy ---------------------------------------------------------------------------------------

TEST(ProxyEvidenceTest, EnvoysTexts) {
  const std::vector<FieldView> headers = {{"content-type", "text/plain"}, {"server", "envoy"}};
  const auto text = [&](std::string_view body) { return judge(503, headers, body); };
  EXPECT_EQ(text(RESET "reset reason: remote connection failure"), NotSent);
  EXPECT_EQ(text(RESET "reset reason: remote connection failure, transport failure reason: "
                       "TLS_error"),
            NotSent);
  EXPECT_EQ(text(RESET "reset reason: local connection failure"), NotSent);
  EXPECT_EQ(text(RESET "reset reason: connection timeout"), NotSent);
  EXPECT_EQ(text(RESET "reset reason: overflow"), NotSent);
  EXPECT_EQ(text(RESET "reset reason: remote refused stream reset"), InDoubt);
  EXPECT_EQ(text(RESET "reset reason: connection termination"), InDoubt);
  EXPECT_EQ(text(RESET "reset reason: remote reset"), InDoubt);
  EXPECT_EQ(text(RESET "reset reason: protocol error"), InDoubt);
  EXPECT_EQ(text(RESET "reset reason: overflowing"), InDoubt);
  EXPECT_EQ(text(RESET "reset reason: "), InDoubt);
  EXPECT_EQ(text("upstream request timeout"), InDoubt);
  EXPECT_EQ(text("stream timeout"), InDoubt);
  EXPECT_EQ(text("no healthy upstream"), InDoubt);
  EXPECT_EQ(judge(403, headers, "RBAC: access denied"), NotSent);
}

// The first attempt may have run, whatever became of the last.
TEST(ProxyEvidenceTest, RetriesOfAnEnvoyBehindProveNothing) {
  const std::vector<FieldView> headers = {{"content-type", "text/plain"}, {"server", "envoy"}};
  EXPECT_EQ(
      judge(503, headers, RESET "retried and the latest reset reason: remote connection failure"),
      InDoubt);
  EXPECT_EQ(judge(503, headers, RESET "retried and the latest reset reason: overflow"), InDoubt);
}

// The text counts without its headers, too: a grpc-message comes alone.
TEST(ProxyEvidenceTest, EnvoysTextAsGrpcMessage) {
  EXPECT_EQ(judge(503, {{"content-type", "application/grpc"}}, "upstream request timeout"),
            InDoubt);
  EXPECT_EQ(judge(503, {{"content-type", "application/grpc"}},
                  RESET "reset reason: remote connection failure"),
            InDoubt)
      << "services pass such errors on as their own";
}

// As measured: beside a 503 of the service itself, after retries.
TEST(ProxyEvidenceTest, EnvoysProxyStatusBesideAResponseOfTheService) {
  std::vector<FieldView> headers = ServiceHeaders;
  headers.emplace_back("proxy-status",
                       R"(sidecar; error=destination_unavailable; details="via_upstream; URX")");
  EXPECT_EQ(judge(503, headers, R"({"error": "busy"})"), Retried);
}

// Its Proxy-Status alone says "refused" also if an earlier attempt was sent.
TEST(ProxyEvidenceTest, EnvoysProxyStatusAloneProvesNothing) {
  EXPECT_EQ(judge(503, {{"server", "envoy"}, {"proxy-status", "p; error=connection_refused"}},
                  "our own page"),
            InDoubt);
  EXPECT_EQ(
      judge(
          503,
          {{"server", "front"},
           {"proxy-status",
            R"(p; error=connection_refused; details="upstream_reset_before_response_started{x}; UF")"}},
          "our own page"),
      InDoubt);
}

TEST(ProxyEvidenceTest, AttemptCountOfAnEnvoyBehind) {
  std::vector<FieldView> headers = ServiceHeaders;
  headers.emplace_back("x-envoy-attempt-count", "1");
  EXPECT_EQ(judge(503, headers, "{}"), None);
  headers.back().second = "2";
  EXPECT_EQ(judge(503, headers, "{}"), Retried);
  EXPECT_EQ(judge(503, headers, RESET "reset reason: overflow"), InDoubt);
}

// A plain text, and nothing that an application would add: a local reply with another text.
TEST(ProxyEvidenceTest, BareTextOfAnEnvoy) {
  std::vector<FieldView> headers = {
      {":status", "503"}, {"content-length", "4"},   {"content-type", "text/plain"},
      {"date", "today"},  {"server", "istio-envoy"}, {"x-envoy-overloaded", "true"}};
  EXPECT_EQ(judge(503, headers, "oops"), InDoubt);
  // Envoy adds these if its config says so.
  headers.emplace_back("x-request-id", "1");
  headers.emplace_back("via", "sidecar");
  EXPECT_EQ(judge(503, headers, "oops"), InDoubt);
  headers.emplace_back("x-powered-by", "cats");
  EXPECT_EQ(judge(503, headers, "oops"), None);
}

// --- Pages of nginx and HAProxy -----------------------------------------------------------------

TEST(ProxyEvidenceTest, PagesOfNginxAndHaproxy) {
  const std::vector<FieldView> html = {{"content-type", "text/html"}};
  EXPECT_EQ(judge(503, html,
                  "<html>\r\n<head><title>503 Service Temporarily Unavailable</title></head>\r\n"
                  "<body>\r\n<center><h1>503 Service Temporarily Unavailable</h1></center>\r\n"
                  "<hr><center>nginx/1.22.1</center>\r\n</body>\r\n</html>\r\n"),
            InDoubt);
  EXPECT_EQ(judge(503, html,
                  "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle "
                  "this request.\n</body></html>\n"),
            InDoubt);
  // What looks like a denied request may be a denied response.
  EXPECT_EQ(judge(403, html,
                  "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n"
                  "</body></html>\n"),
            InDoubt);
  EXPECT_EQ(judge(403, {{"content-type", "text/html; charset=iso-8859-1"}},
                  "<p>You don't have permission to access this resource.</p>"),
            InDoubt);
  // A JSON document that quotes such a page is the service's own.
  EXPECT_EQ(judge(503, {{"content-type", "application/json"}}, R"({"page": "<center>nginx"})"),
            None);
}

// --- What a text proves, and for whom
// --------------------------------------------------------------

constexpr std::string_view Refused = RESET "reset reason: remote connection failure";
const std::vector<FieldView> LocalReply = {
    {":status", "503"},       {"content-type", "text/plain"},
    {"content-length", "91"}, {"date", "Tue, 17 Nov 2026 12:00:00 GMT"},
    {"server", "envoy"},      {"x-envoy-upstream-service-time", "3"}};

std::vector<FieldView> with(std::vector<FieldView> headers, std::vector<FieldView> more) {
  headers.insert(headers.end(), more.begin(), more.end());
  return headers;
}

// The text is of the proxy next to the service. One before it may have sent the request before.
TEST(ProxyEvidenceTest, ATextDoesNotSpeakForTheProxiesBeforeItsOwn) {
  EXPECT_EQ(judge(503, LocalReply, Refused), NotSent);
  const auto beside = [](std::string_view status) {
    return judge(503, with(LocalReply, {{"proxy-status", status}}), Refused);
  };
  EXPECT_EQ(beside("sidecar; error=connection_refused; details=\"x; UF\""), NotSent);
  EXPECT_EQ(beside("mid; error=destination_unavailable; details=\"via_upstream; URX\""), InDoubt);
  EXPECT_EQ(beside("sidecar; error=connection_refused; details=\"x; UF\", mid"), InDoubt);
  EXPECT_EQ(beside("not a list;"), InDoubt);
  EXPECT_EQ(judge(503, with(LocalReply, {{"x-envoy-attempt-count", "2"}}), Refused), InDoubt);
}

// A service that calls another one through its own Envoy, and passes on the error that it got.
TEST(ProxyEvidenceTest, ATextThatAServicePassesOnProvesNothing) {
  EXPECT_EQ(judge(503, {{"content-type", "text/plain"}}, Refused), InDoubt) << "no Envoy";
  EXPECT_EQ(judge(503, {{"content-type", "application/json"}, {"server", "envoy"}}, Refused),
            InDoubt);
  EXPECT_EQ(judge(503, with(LocalReply, {{"x-request-id", "1"}}), Refused), InDoubt);
  EXPECT_EQ(judge(503, with(LocalReply, {{"set-cookie", "a=b"}}), Refused), InDoubt);
  EXPECT_EQ(
      judge(503, {{"content-type", "text/plain; charset=utf-8"}, {"server", "envoy"}}, Refused),
      InDoubt);
}

// --- Errors of proxies that say little
// -------------------------------------------------------------

TEST(ProxyEvidenceTest, AnEnvoysReplyWithoutAText) {
  EXPECT_EQ(judge(500, {{":status", "500"}, {"date", "x"}, {"server", "envoy"}}), InDoubt);
  EXPECT_EQ(judge(500, {{":status", "500"}, {"date", "x"}, {"server", "istio-envoy"}}), InDoubt);
  EXPECT_EQ(judge(500, {{":status", "500"}, {"date", "x"}}), None) << "a service without a proxy";
  EXPECT_EQ(judge(500, {{":status", "500"}, {"server", "envoy"}, {"x-request-id", "1"}}), InDoubt);
  EXPECT_EQ(judge(500, {{":status", "500"}, {"server", "envoy"}, {"set-cookie", "a=b"}}), None);
}

// As measured: its filter wanted the whole response, which was too long. The service has run.
TEST(ProxyEvidenceTest, AnEnvoyThatFailsAndDoesNotShowItsName) {
  EXPECT_EQ(judge(500, {{"content-type", "text/plain"}, {"content-length", "21"}, {"date", "x"}},
                  "Internal Server Error"),
            InDoubt);
  EXPECT_EQ(judge(500, {{"content-type", "text/plain"}, {"server", "gateway"}, {"via", "x"}},
                  "Internal Server Error"),
            InDoubt);
  EXPECT_EQ(judge(500, {{"content-type", "text/plain; charset=utf-8"}}, "Internal Server Error"),
            None)
      << "a service's framework";
}

TEST(ProxyEvidenceTest, GrpcErrorsOfAnEnvoy) {
  const std::vector<FieldView> headers = {{":status", "200"},
                                          {"content-type", "application/grpc"},
                                          {"grpc-status", "14"},
                                          {"server", "envoy"}};
  EXPECT_EQ(judge(503, headers, "upstream max stream duration reached"), InDoubt);
  EXPECT_EQ(judge(503, headers), InDoubt) << "a filter of the proxy failed";
  EXPECT_EQ(judge(503, headers, Refused), InDoubt) << "services pass it on";
  EXPECT_EQ(judge(503, headers, "the account is busy"), None) << "the service's own message";
}

TEST(ProxyEvidenceTest, TextsThatAreCompressed) {
  const auto coded = [](std::string_view type, std::string_view coding) {
    return judge(503, {{"content-type", type}, {"content-encoding", coding}, {"vary", "x"}},
                 "\x1f");
  };
  EXPECT_EQ(coded("text/plain", "gzip"), InDoubt);
  EXPECT_EQ(coded("text/html; charset=utf-8", "br"), InDoubt);
  EXPECT_EQ(coded("text/plain", "identity"), None);
  EXPECT_EQ(coded("application/json", "gzip"), None)
      << "proxies do not answer in JSON by themselves";
}

TEST(ProxyEvidenceTest, OtherProxiesByTheirPagesAndHeaders) {
  const auto page = [](std::string_view type, std::string_view text) {
    return judge(503, {{"content-type", type}}, text);
  };
  EXPECT_EQ(page("text/html", "<center><h1>503</h1></center>\r\n<hr><center>kong/3</center>"),
            InDoubt);
  EXPECT_EQ(page("text/html", "<h1>Error 503 Backend fetch failed</h1>"), InDoubt);
  EXPECT_EQ(page("text/html", "<p>Varnish cache server</p>"), InDoubt);
  EXPECT_EQ(page("text/html", "<html><head><title>Timeout</title></head>"), InDoubt);
  // lighttpd 1.4.69, for a service that closed the connection after it had read the request.
  EXPECT_EQ(page("text/html",
                 "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<!DOCTYPE html PUBLIC "
                 "\"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n"),
            InDoubt);
  // Apache 2.4.
  EXPECT_EQ(page("text/html; charset=iso-8859-1",
                 "<p>The server encountered an internal error or\nmisconfiguration and was unable "
                 "to complete\nyour request.</p>"),
            InDoubt);
  EXPECT_EQ(page("text/plain; charset=utf-8", "no available server\n"), InDoubt);
  EXPECT_EQ(page("text/plain; charset=utf-8", "no available seat"), None);
  EXPECT_EQ(judge(503, {{"l5d-proxy-error", "connect error"}}), InDoubt);
  EXPECT_EQ(judge(503, {{"x-kong-response-latency", "1"}, {"content-type", "application/json"}}),
            InDoubt);
  EXPECT_EQ(judge(503, {{"server", "awselb/2.0"}, {"content-type", "text/html"}}), InDoubt);
}

}  // namespace
}  // namespace idempotency::protocol
