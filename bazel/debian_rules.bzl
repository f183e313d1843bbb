"""Bazel's rule sets from Debian's packages, so that a build needs no network.

A workspace that brings rules_cc, rules_java, rules_proto and bazel_skylib in another way (http_archive,
say) leaves debian_rules() out of its WORKSPACE: all loads in this tree use the rule sets' usual names.
"""

_RULES = "/usr/share/bazel"

def _require(ctx, folder, package):
    if not ctx.path(folder).exists:
        fail("\n\n%s is missing. Run tools/setup, or: apt-get install %s\n" % (folder, package))

def _packaged_rules_impl(ctx):
    _require(ctx, ctx.attr.folder, ctx.attr.package)
    result = ctx.execute(["cp", "-rL", ctx.attr.folder + "/.", "."])
    if result.return_code:
        fail("cannot copy %s: %s" % (ctx.attr.folder, result.stderr))

    # Debian's rules_cc is newer than Debian's Bazel 4.2.3, which has no use_cpp_toolchain.
    for pattern, text in ctx.attr.edits.items():
        result = ctx.execute(["sh", "-c", "grep -rlF \"$1\" . | xargs -r sed -i \"s|$1|$2|g\"", "sh", pattern, text])
        if result.return_code:
            fail("cannot edit %s: %s" % (ctx.attr.folder, result.stderr))
    ctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % ctx.name)

_packaged_rules = repository_rule(
    implementation = _packaged_rules_impl,
    attrs = {
        "edits": attr.string_dict(doc = "Plain text to replace in every file: old to new, in order."),
        "folder": attr.string(mandatory = True, doc = "Where the Debian package puts the rules."),
        "package": attr.string(mandatory = True, doc = "The Debian package to install."),
    },
)

def _coverage_stub_impl(ctx):
    ctx.file("WORKSPACE", "")
    ctx.file("BUILD", """package(default_visibility = ["//visibility:public"])
filegroup(name = "coverage_report_generator")
filegroup(name = "lcov_merger")
""")

# Bazel wants this repository before it analyses any test, even when nothing is measured.
_coverage_stub = repository_rule(implementation = _coverage_stub_impl)

def debian_rules():
    """Declares the rule sets of Debian 12."""
    _packaged_rules(
        name = "rules_cc",
        edits = {
            ", \"use_cpp_toolchain\"": "",
            "use_cpp_toolchain()": "[\"@bazel_tools//tools/cpp:toolchain_type\"]",
        },
        folder = _RULES + "/rules/cc",
        package = "bazel-rules-cc",
    )
    _packaged_rules(name = "rules_java", folder = _RULES + "/rules/java", package = "bazel-rules-java")
    _packaged_rules(name = "rules_proto", folder = _RULES + "/rules/proto", package = "bazel-rules-proto")
    _packaged_rules(name = "bazel_skylib", folder = _RULES + "/tools/skylib", package = "bazel-skylib")
    _coverage_stub(name = "remote_coverage_tools")
