# What CMake before 3.30 lacks: without it, shared libraries get neither a soname nor an RPATH.
include(Platform/Linux)
