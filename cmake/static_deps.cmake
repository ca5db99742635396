# SPARSEAGG_STATIC_DEPS: what dependencies.cmake has found as shared libraries becomes archives, so that the program needs
# the C library alone and runs on any distribution whose glibc is not older. Debian's CMake files name shared libraries
# only; the archives lie beside them or, where Debian has none, where packaging/static_libraries built them.
include_guard()

set(SPARSEAGG_SYSTEM_LIBRARIES "^(dl|rt|pthread|atomic|m)$")

# The archive libNAME.a.
function(sparseagg_archive name out)
  unset(archive)
  find_library(archive NAMES lib${name}.a HINTS ${CMAKE_PREFIX_PATH} PATH_SUFFIXES lib NO_CACHE)
  if(NOT archive)
    message(FATAL_ERROR "SPARSEAGG_STATIC_DEPS: no lib${name}.a. Build it with packaging/static_libraries PREFIX and pass "
                        "-DCMAKE_PREFIX_PATH=PREFIX.")
  endif()
  set(${out} ${archive} PARENT_SCOPE)
endfunction()

# Link items, with archives for the shared libraries among them.
function(sparseagg_archives items out)
  set(mapped "")
  foreach(item IN LISTS items)
    if(item MATCHES "^(/.*/lib|-l)([^/]+)$")
      string(REGEX REPLACE "\\.so[.0-9]*$" "" name ${CMAKE_MATCH_2})
      if(NOT name MATCHES "\\.a$" AND NOT name MATCHES ${SPARSEAGG_SYSTEM_LIBRARIES})
        sparseagg_archive(${name} item)
      endif()
    endif()
    list(APPEND mapped "${item}")
  endforeach()
  set(${out} "${mapped}" PARENT_SCOPE)
endfunction()

# What each library needs itself: a shared one knows, an archive does not. Named once, behind everything else. The core
# alone needs abseil only, whose CMake files know.
set(_closure "")
if(SPARSEAGG_SERVER)
  pkg_check_modules(grpc_closure REQUIRED grpc++ protobuf libssl libcrypto zlib)
  foreach(name IN LISTS grpc_closure_STATIC_LIBRARIES)
    if(NOT name MATCHES ${SPARSEAGG_SYSTEM_LIBRARIES})
      sparseagg_archive(${name} _archive)
      list(APPEND _closure ${_archive})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES _closure)
endif()
add_library(sparseagg_static_closure INTERFACE)
target_link_libraries(sparseagg_static_closure INTERFACE
  -Wl,--start-group ${_closure} -Wl,--end-group Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(sparseagg_static_closure INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)

get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
list(FILTER _targets EXCLUDE REGEX "^CUDA::")  # its runtime is linked statically anyway, the driver never
foreach(target IN LISTS _targets)
  get_target_property(items ${target} INTERFACE_LINK_LIBRARIES)
  if(items)
    sparseagg_archives("${items}" items)
    set_property(TARGET ${target} PROPERTY INTERFACE_LINK_LIBRARIES "${items}")
  endif()
  get_target_property(type ${target} TYPE)
  if(type MATCHES "^(SHARED|UNKNOWN)_LIBRARY$")
    get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
    foreach(configuration IN LISTS configurations ITEMS "")
      string(REGEX REPLACE "^(.+)$" "_\\1" suffix "${configuration}")
      get_target_property(location ${target} IMPORTED_LOCATION${suffix})
      if(location)
        sparseagg_archives("${location}" location)
        set_property(TARGET ${target} PROPERTY IMPORTED_LOCATION${suffix} ${location})
      endif()
    endforeach()
  endif()
endforeach()
