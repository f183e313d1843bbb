#include "source/operator_api/page.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "source/operator_api/page_files.h"

namespace idempotency::operator_api {
namespace {

constexpr std::string_view IndexFile = "index.html";
constexpr std::string_view Methods = "GET, HEAD, OPTIONS";

// The page loads its own files and asks its own API, and nothing else. Its code cannot turn text
// into markup: no policy for that exists.
constexpr std::string_view ContentPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for "
    "'script'; trusted-types 'none'";

// By the end of the name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> MediaTypes = {{
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
}};

std::string_view mediaType(std::string_view name) {
  const auto* const found =
      std::find_if(MediaTypes.begin(), MediaTypes.end(),
                   [&](const auto& type) { return name.ends_with(type.first); });
  return found == MediaTypes.end() ? "text/plain; charset=utf-8" : found->second;
}

ApiAnswer fileAnswer(const EmbeddedText& file) {
  constexpr int Ok = 200;
  return {Ok,
          {{"content-type", std::string(mediaType(file.name))},
           {"content-security-policy", std::string(ContentPolicy)},
           {"x-content-type-options", "nosniff"},
           {"cache-control", "no-store"},
           {"referrer-policy", "no-referrer"},
           {"cross-origin-opener-policy", "same-origin"},
           {"cross-origin-resource-policy", "same-origin"}},
          std::string(file.text)};
}

// The page names its files relative to its own folder.
ApiAnswer redirectTo(std::string location) {
  constexpr int PermanentRedirect = 308;
  return {
      PermanentRedirect, {{"location", std::move(location)}, {"cache-control", "no-store"}}, ""};
}

// None: there is no such file.
std::optional<ApiAnswer> find(std::string_view path, std::string_view prefix) {
  if (path == prefix) {
    return redirectTo(fmt::format("{}/", std::string(prefix)));
  }
  if (!path.starts_with(prefix) || path[prefix.size()] != '/') {
    return std::nullopt;
  }
  const std::string_view rest = path.substr(prefix.size() + 1);
  const std::string_view name = rest.empty() ? IndexFile : rest;
  for (const EmbeddedText& file : operatorPageFiles()) {
    if (file.name == name) {
      return fileAnswer(file);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ApiAnswer> pageAnswer(std::string_view method, std::string_view path,
                                    std::string_view prefix) {
  auto answer = find(path.substr(0, path.find('?')), prefix);
  if (!answer.has_value() || method == "GET" || method == "HEAD") {
    return answer;
  }
  return method == "OPTIONS" ? optionsAnswer(Methods) : methodAnswer(Methods);
}

}  // namespace idempotency::operator_api
