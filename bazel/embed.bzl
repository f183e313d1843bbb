"""Text files as C++ constants."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def embedded_texts(name, srcs, function, visibility = None):
    """A library whose header NAME.h declares what the files hold.

    It declares `std::span<const EmbeddedText> FUNCTION()` in namespace idempotency, in the order of the files' names. The
    texts are the files, byte for byte.

    Args:
      name: of the library and its header.
      srcs: the files. Their names must not hold quotes, their texts not `)embedded"`.
      function: the name of the function.
      visibility: of the library.
    """
    native.genrule(
        name = name + "_sources",
        srcs = srcs,
        outs = [name + ".h", name + ".cc"],
        cmd = """
set -e
{
  echo '#pragma once'
  echo '#include <span>'
  echo '#include "bazel/embedded_text.h"'
  echo 'namespace idempotency {'
  echo 'std::span<const EmbeddedText> %s();'
  echo '}  // namespace idempotency'
} > $(location %s.h)
{
  echo '#include "%s/%s.h"'
  echo 'namespace idempotency {'
  echo 'std::span<const EmbeddedText> %s() {'
  echo '  static constexpr EmbeddedText Texts[] = {'
  for file in $$(printf '%%s\\n' $(SRCS) | LC_ALL=C sort); do
    printf '%%s' "    {\\"$$(basename $$file)\\", R\\"embedded("
    cat $$file
    echo ')embedded"},'
  done
  echo '  };'
  echo '  return Texts;'
  echo '}'
  echo '}  // namespace idempotency'
} > $(location %s.cc)
""" % (function, name, native.package_name(), name, function, name),
        visibility = ["//visibility:private"],
    )
    cc_library(
        name = name,
        srcs = [name + ".cc"],
        hdrs = [name + ".h"],
        visibility = visibility,
        deps = ["//bazel:embedded_text"],
    )
