"""Published test vectors, as data for tests. They are fetched by tools/setup and never committed.

Each target holds one folder of .cache/vectors. A test that lists it in `data` finds the files under
$TEST_SRCDIR/vectors/<folder>/. Without the files nothing that needs them builds: no test is skipped.
"""

# Folder to a file that it surely holds, so that a half-made folder is noticed.
_FOLDERS = {
    "jcs": "input/weird.json",
    "structured-fields": "string.json",
}

def _vectors_impl(ctx):
    cache = ctx.path(ctx.attr.workspace_file).dirname.get_child(".cache").get_child("vectors")
    rules = ["package(default_visibility = [\"//visibility:public\"])\n"]
    for folder, marker in _FOLDERS.items():
        source = cache.get_child(folder)
        if not ctx.path(str(source) + "/" + marker).exists:
            fail("\n\nThe test vectors in %s are missing: run tools/setup\n" % source)
        ctx.symlink(source, folder)
        rules.append("""filegroup(
    name = "%s",
    testonly = True,
    srcs = glob(["%s/**"]),
)
""" % (folder.replace("-", "_"), folder))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)
    ctx.file("BUILD", "\n".join(rules))

vectors = repository_rule(
    implementation = _vectors_impl,
    attrs = {
        "workspace_file": attr.label(default = "//:WORKSPACE", doc = "Tells where the workspace is."),
    },
    local = True,
)
