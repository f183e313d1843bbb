#include "source/message/status_token.h"

#include <memory>
#include <span>
#include <vector>

#include <openssl/evp.h>

#include "source/fingerprint/hex.h"

namespace idempotency::message {
namespace {

// Changes if the meaning of the sealed bytes changes.
constexpr std::string_view Purpose = "idempotency status 1";
constexpr size_t TagBytes = 16;
constexpr size_t LengthBytes = 2;
// Of an operation and a key, with room to spare: anything longer is not ours.
constexpr size_t MostTokenDigits = 4096;

using Bytes = std::vector<uint8_t>;

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// Fetched once, and never freed, since threads may outlive static destructors.
const EVP_CIPHER* cipher() {
  static const EVP_CIPHER* const fetched = EVP_CIPHER_fetch(nullptr, "AES-256-SIV", nullptr);
  return fetched;
}

const uint8_t* bytesOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Ready for the text, with the tenant as associated data. Null if OpenSSL fails.
Context start(std::span<const uint8_t> key, const std::string& tenant, bool encrypts,
              std::span<uint8_t> tag) {
  Context context(EVP_CIPHER_CTX_new());
  if (context == nullptr || cipher() == nullptr ||
      EVP_CipherInit_ex2(context.get(), cipher(), key.data(), nullptr, encrypts ? 1 : 0, nullptr) !=
          1) {
    return nullptr;
  }
  if (!encrypts && EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG,
                                       static_cast<int>(tag.size()), tag.data()) != 1) {
    return nullptr;
  }
  // An empty string is associated data, too, but OpenSSL ignores it: the purpose makes it
  // non-empty.
  const std::string associated = std::string(Purpose) + '\0' + tenant;
  int written = 0;
  if (EVP_CipherUpdate(context.get(), nullptr, &written, bytesOf(associated),
                       static_cast<int>(associated.size())) != 1) {
    return nullptr;
  }
  return context;
}

std::optional<uint8_t> digitOf(char c) {
  if (c >= '0' && c <= '9') {
    return static_cast<uint8_t>(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return static_cast<uint8_t>(c - 'a' + 10);
  }
  return std::nullopt;
}

std::optional<Bytes> fromHex(std::string_view text) {
  if (text.size() % 2 != 0 || text.size() > MostTokenDigits) {
    return std::nullopt;
  }
  Bytes bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const auto high = digitOf(text[i]);
    const auto low = digitOf(text[i + 1]);
    if (!high.has_value() || !low.has_value()) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<uint8_t>(*high << 4 | *low));
  }
  return bytes;
}

// The operation's length, the operation, the key.
std::string pack(const protocol::Identity& identity) {
  std::string text;
  text += static_cast<char>(identity.operation.size() >> 8);
  text += static_cast<char>(identity.operation.size() & 0xff);
  return text.append(identity.operation).append(identity.key);
}

std::optional<protocol::Identity> unpack(std::string_view text, const std::string& tenant) {
  if (text.size() < LengthBytes) {
    return std::nullopt;
  }
  const size_t length = static_cast<size_t>(static_cast<uint8_t>(text[0])) << 8 |
                        static_cast<size_t>(static_cast<uint8_t>(text[1]));
  text.remove_prefix(LengthBytes);
  if (text.size() <= length) {
    return std::nullopt;
  }
  return protocol::Identity{tenant, std::string(text.substr(0, length)),
                            std::string(text.substr(length))};
}

}  // namespace

std::optional<StatusTokens> StatusTokens::create(std::string_view secret) {
  StatusTokens tokens;
  const std::unique_ptr<EVP_MD, decltype(&EVP_MD_free)> sha512(
      EVP_MD_fetch(nullptr, "SHA2-512", nullptr), EVP_MD_free);
  const std::string text = std::string(Purpose) + '\0' + std::string(secret);
  if (secret.size() < MinSecretBytes || sha512 == nullptr ||
      EVP_Digest(text.data(), text.size(), tokens.key_.data(), nullptr, sha512.get(), nullptr) !=
          1) {
    return std::nullopt;
  }
  return tokens;
}

std::string StatusTokens::seal(const protocol::Identity& identity) const {
  const std::string text = pack(identity);
  Bytes sealed(TagBytes + text.size());
  const Context context = start(key_, identity.tenant, true, {});
  int written = 0;
  const bool done =
      context != nullptr &&
      EVP_CipherUpdate(context.get(), sealed.data() + TagBytes, &written, bytesOf(text),
                       static_cast<int>(text.size())) == 1 &&
      EVP_CipherFinal_ex(context.get(), sealed.data() + sealed.size(), &written) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, TagBytes, sealed.data()) == 1;
  return done ? fingerprint::toHex(sealed) : std::string();
}

std::optional<protocol::Identity> StatusTokens::open(std::string_view token,
                                                     const std::string& tenant) const {
  std::optional<Bytes> sealed = fromHex(token);
  if (!sealed.has_value() || sealed->size() <= TagBytes) {
    return std::nullopt;
  }
  const std::span<uint8_t> tag = std::span(*sealed).first(TagBytes);
  const std::span<uint8_t> body = std::span(*sealed).subspan(TagBytes);
  std::string text(body.size(), '\0');
  const Context context = start(key_, tenant, false, tag);
  int written = 0;
  // SIV checks the whole text at once.
  if (context == nullptr ||
      EVP_CipherUpdate(context.get(), reinterpret_cast<uint8_t*>(text.data()), &written,
                       body.data(), static_cast<int>(body.size())) != 1) {
    return std::nullopt;
  }
  return unpack(text, tenant);
}

}  // namespace idempotency::message
