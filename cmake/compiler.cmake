# Language level, warnings and sanitizers, in one interface target that every component links.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(TESSERA_CCACHE ccache)
if(TESSERA_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TESSERA_CCACHE})
endif()

add_library(tessera_options INTERFACE)
target_include_directories(tessera_options INTERFACE ${CMAKE_SOURCE_DIR})
# A product and a sum are contracted only where a kernel asks for it: initial values and losses must have
# the same bits on every compiler.
target_compile_options(tessera_options INTERFACE -ffp-contract=off -fno-math-errno)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
  if(TESSERA_SANITIZE MATCHES "undefined")
    target_compile_options(tessera_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

add_library(tessera_warnings INTERFACE)
# Designated initialisers leave members at their defaults on purpose.
target_compile_options(tessera_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string concatenation that are not there (GCC bug 105651).
  target_compile_options(tessera_warnings INTERFACE -Wno-restrict)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A merged source looks like a header to it, in which types without linkage would be a mistake.
  target_compile_options(tessera_warnings INTERFACE -Wno-subobject-linkage)
endif()
# Other compilers warn of other things, some of them not there: nobody's first build may end with that.
if(TESSERA_WERROR AND "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}" MATCHES "^(GNU 12|Clang 14)\\.")
  target_compile_options(tessera_warnings INTERFACE -Werror)
endif()
