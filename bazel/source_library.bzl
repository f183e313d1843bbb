"""Debian's source packages, as tools/setup portable unpacked them, compiled by BUILD files of our own.

They are the sources of the very packages whose libraries all other builds link: same version, same patches. Nothing looks
for them but --config=portable.
"""

def _source_library_impl(ctx):
    cache = ctx.path(ctx.attr.workspace_file).dirname.get_child(".cache").get_child("portable")
    sources = cache.get_child("sources").get_child(ctx.attr.package)
    if not sources.exists:
        fail("\n\nThe sources of %s are missing: run tools/setup portable\n" % ctx.attr.package)
    for entry in sources.readdir():
        ctx.symlink(entry, entry.basename)
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.symlink(ctx.attr.build_file, "BUILD")

source_library = repository_rule(
    implementation = _source_library_impl,
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "package": attr.string(mandatory = True, doc = "The source package, as tools/versions.env names it."),
        "workspace_file": attr.label(default = "//:WORKSPACE", doc = "Tells where the workspace is."),
    },
    local = True,
)
