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
    ctx.file("BUILD", """package(default_visibility = ["//visibility:public"])

load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "%s",
    defines = %s,
    linkopts = ["-Wl,--as-needed"] + %s,
)
""" % (ctx.attr.target or ctx.name, repr(defines), repr(links)))

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "modules": attr.string_list(mandatory = True, doc = "pkg-config names; headers are on the compiler's own path."),
        "package": attr.string(mandatory = True, doc = "The Debian package to install, named in the error."),
        "target": attr.string(doc = "Name of the target; the repository's name by default."),
    },
    environ = ["PKG_CONFIG_PATH"],
    local = True,
)
