"""A library of which only the objects count."""

load("@rules_cc//cc:defs.bzl", "CcInfo", "cc_common")

def _link_only_impl(ctx):
    merged = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    return [CcInfo(linking_context = merged.linking_context)]

# What depends on it is compiled as if it were not there: by the same command, so the objects are the same, too.
link_only = rule(
    implementation = _link_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    provides = [CcInfo],
)
