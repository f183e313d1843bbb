"""The C library of an older Debian, only to link with: what is linked with it runs there and on all newer ones."""

# Libraries that are apart from libc until glibc 2.34, with the number of their interface.
_LIBRARIES = {"dl": 2, "m": 6, "pthread": 0, "rt": 1}

# A newer crt1.o leaves it to the C library to run constructors, which an older one does not do.
_START_FILES = ["Scrt1.o", "crt1.o", "crti.o", "crtn.o"]

def _old_glibc_impl(ctx):
    cache = ctx.path(ctx.attr.workspace_file).dirname.get_child(".cache").get_child("portable")
    root = str(cache.get_child("glibc-" + ctx.attr.architecture))
    system = "%s/lib/%s" % (root, ctx.attr.triplet)
    development = "%s/usr/lib/%s" % (root, ctx.attr.triplet)
    if not ctx.path(system + "/libc.so.6").exists:
        fail("\n\n%s/libc.so.6 is missing: run tools/setup portable\n" % system)
    for name, number in _LIBRARIES.items():
        ctx.symlink("%s/lib%s.so.%d" % (system, name, number), "lib/lib%s.so" % name)
    for name in _START_FILES:
        ctx.symlink("%s/%s" % (development, name), "lib/" + name)

    # The package's own libc.so names files below /, which are those of the system.
    ctx.file("lib/libc.so", "GROUP ( %s/libc.so.6 %s/libc_nonshared.a AS_NEEDED ( %s/%s ) )\n" %
                            (system, development, system, ctx.attr.loader))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", """load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "link",
    linkopts = ["-B%s", "-L%s"],
    visibility = ["//visibility:public"],
)
""" % (ctx.path("lib"), ctx.path("lib")))

old_glibc = repository_rule(
    implementation = _old_glibc_impl,
    attrs = {
        "architecture": attr.string(mandatory = True, doc = "Debian's name."),
        "loader": attr.string(mandatory = True, doc = "The name of the dynamic loader's file."),
        "triplet": attr.string(mandatory = True, doc = "Names the folders of libraries."),
        "workspace_file": attr.label(default = "//:WORKSPACE", doc = "Tells where the workspace is."),
    },
    local = True,
)
