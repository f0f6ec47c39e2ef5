# What the SDK behind the toolchain file is, and where its libraries are.

# API level from oh-uni-package.json beside the sysroot, unless one is set already.
function(find_api_level result)
  if(NOT "${${result}}" STREQUAL "")
    return()
  endif()
  set(package "${CMAKE_SYSROOT}/../oh-uni-package.json")
  if(NOT EXISTS "${package}")
    message(FATAL_ERROR "No oh-uni-package.json beside the sysroot (${CMAKE_SYSROOT}): set OHFORGE_API_LEVEL, "
                        "or use the reference runtime with -DOHFORGE_REFERENCE=<folder>.")
  endif()
  file(READ "${package}" text)
  string(JSON level GET "${text}" apiVersion)
  set(${result} "${level}" PARENT_SCOPE)
endfunction()

# SDKs have the engines as shared libraries only.
function(refuse_static engine)
  if(CMAKE_EXE_LINKER_FLAGS MATCHES "(^| )-static( |$)")
    message(FATAL_ERROR "The SDK has ${engine} as a shared library only: build without --static.")
  endif()
endfunction()

# The first of the names that the sysroot has for this arch; an error that lists them when there is none.
function(find_sdk_library result)
  foreach(name ${ARGN})
    foreach(triple ${CMAKE_LIBRARY_ARCHITECTURE} ${CMAKE_C_COMPILER_TARGET} ${CMAKE_CXX_COMPILER_TARGET} "")
      set(file "${CMAKE_SYSROOT}/usr/lib/${triple}/lib${name}.so")
      if(EXISTS "${file}")
        set(${result} "${file}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  list(JOIN ARGN ".so or lib" listed)
  message(FATAL_ERROR "The SDK's sysroot ${CMAKE_SYSROOT} has no lib${listed}.so for ${CMAKE_LIBRARY_ARCHITECTURE}: "
                      "API level ${OHFORGE_API_LEVEL} should. Is the SDK complete?")
endfunction()
