"""Protocol Buffers in C++ by the system's protoc: proto_library would build protobuf itself."""

load("@rules_cc//cc:defs.bzl", "cc_library")

def cc_proto(name, srcs, **kwargs):
    """A cc_library of the code that protoc makes of `srcs`.

    Include it by its path from the root: "api/idempotency/v1/stored_response.pb.h".

    Args:
      name: the target.
      srcs: .proto files of this package. They may import each other and Google's well-known types.
      **kwargs: passed on to cc_library.
    """
    stems = [src[:-len(".proto")] for src in srcs]
    native.genrule(
        name = name + "_generate",
        srcs = srcs,
        outs = [stem + suffix for stem in stems for suffix in [".pb.cc", ".pb.h"]],
        cmd = "protoc --proto_path=. --cpp_out=$(GENDIR) $(SRCS)",
        message = "Generating C++ for " + name,
    )
    cc_library(
        name = name,
        srcs = [stem + ".pb.cc" for stem in stems],
        hdrs = [stem + ".pb.h" for stem in stems],
        # Not our code: our warnings do not apply.
        copts = ["-w"],
        deps = ["@protobuf"],
        **kwargs
    )
