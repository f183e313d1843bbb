"""Fuzz targets whose corpora also run as tests."""

load("@rules_cc//cc:defs.bzl", "cc_test")

def fuzz_target(name, srcs, deps = [], corpus = None, mutations = 20000, size = "small"):
    """Makes <name>_fuzz out of sources that define LLVMFuzzerTestOneInput.

    In a normal build it is a test: it runs every file of the corpus and then a fixed number of mutations of
    them, the same ones each time. With --config=fuzz it is a libFuzzer program; `bazel test` then runs the
    corpus once, and the program itself, started by hand, fuzzes.

    Args:
      name: what is fuzzed; the target is called <name>_fuzz.
      srcs: the sources; include test/fuzz/fuzz.h for FUZZ_CHECK.
      deps: what they use.
      corpus: folder of the seed corpus in this package, corpus/<name> by default. One file per input, named
        after the case that it represents, by letters, digits, dots and dashes.
      mutations: how many mutations the test runs.
      size: the test's size.
    """
    folder = corpus or "corpus/" + name
    files = native.glob([folder + "/**"])
    if not files:
        fail("fuzz_target %s has no seed corpus in %s/%s" % (name, native.package_name(), folder))
    native.filegroup(
        name = name + "_corpus",
        testonly = True,
        srcs = files,
    )
    inputs = ["$(rootpaths :%s_corpus)" % name]
    cc_test(
        name = name + "_fuzz",
        size = size,
        srcs = srcs,
        args = select({
            "//bazel:fuzzing": inputs,
            "//conditions:default": ["--mutations=%d" % mutations] + inputs,
        }),
        data = [":%s_corpus" % name],
        linkopts = select({
            "//bazel:fuzzing": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + ["//test/fuzz"] + select({
            "//bazel:fuzzing": [],
            "//conditions:default": ["//test/fuzz:replay_main"],
        }),
    )
