"""Libraries of the operating system as Bazel targets, found by pkg-config."""

def _pkg_config(ctx, package, arguments):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        fail("\n\npkg-config is missing. Run tools/setup, or: apt-get install pkg-config\n")
    result = ctx.execute([pkg_config] + arguments)
    if result.return_code:
        fail("\n\n@%s needs a system package that is not installed. Run tools/setup, or: apt-get install %s\n\n%s" %
             (ctx.name, package, result.stderr))
    words = []
    for word in result.stdout.replace("\n", " ").split(" "):
        if word and word not in words:
            words.append(word)
    return words

# With --config=portable, what uses a library is compiled as always: only the link differs.
_BUILD = """package(default_visibility = ["//visibility:public"])

load("@envoy_idempotency//bazel:link_only.bzl", "link_only")
load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "%s",
    defines = %s,
    linkopts = select({
        "@envoy_idempotency//bazel:portable": %s,
        "//conditions:default": %s,
    }),
    deps = select({
        "@envoy_idempotency//bazel:portable": %s,
        "//conditions:default": [],
    }),
)

link_only(
    name = "portable",
    deps = %s,
)
"""

def _system_library_impl(ctx):
    modules = ctx.attr.modules
    copts = _pkg_config(ctx, ctx.attr.package, ["--cflags-only-other"] + modules)
    defines = [word[2:] for word in copts if word.startswith("-D")]
    links = [
        word
        for word in _pkg_config(ctx, ctx.attr.package, ["--libs"] + modules)
        # One --as-needed for the whole link (below) does what these brackets are for.
        if word not in ["-Wl,--push-state,--as-needed", "-Wl,--pop-state"]
    ]
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    links = ["-Wl,--as-needed"] + links
    archives = ["-l:" + archive for archive in ctx.attr.archives]
    if archives:
        # Before glibc 2.34 these are apart, and they go after what needs them.
        archives += ["-ldl", "-lpthread"]
    portable = [ctx.attr.portable] if ctx.attr.portable else []
    ctx.file("BUILD", _BUILD % (
        ctx.attr.target or ctx.name,
        repr(defines),
        repr(archives if archives or portable else links),
        repr(links),
        repr([":portable"] if portable else []),
        repr(portable),
    ))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "archives": attr.string_list(doc = "For --config=portable: position-independent archives of the package."),
        "modules": attr.string_list(mandatory = True, doc = "pkg-config names; headers are on the compiler's own path."),
        "package": attr.string(mandatory = True, doc = "The Debian package to install, named in the error."),
        "portable": attr.string(doc = "For --config=portable: the target that takes the place of the package's libraries."),
        "target": attr.string(doc = "Name of the target; the repository's name by default."),
    },
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
