# cmake --install: the program, and a package for find_package(sparseagg).
#
#   include/sparseagg/{client,sparse,base}/*.h #include "sparseagg/client/client.h"  (or "client/client.h")
#   lib/libsparseagg_*.a                      targets sparseagg::client and sparseagg::core
#   lib/cmake/sparseagg/                      sparseaggConfig.cmake and its version
#
# The headers of client/ that see generated code stay private: their types are not part of the interface.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sparseagg)
set_target_properties(sparseagg_client PROPERTIES EXPORT_NAME client)
set_target_properties(sparseagg_core PROPERTIES EXPORT_NAME core)
set_target_properties(sparseagg_base PROPERTIES EXPORT_NAME base)
# The others are there for the linker only.
install(TARGETS sparseagg_client sparseagg_core sparseagg_base sparseagg_proto sparseagg_proto_convert sparseagg_options
        EXPORT sparseagg
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${CMAKE_INSTALL_INCLUDEDIR}/sparseagg)
install(EXPORT sparseagg NAMESPACE sparseagg:: DESTINATION ${package_dir} FILE sparseaggTargets.cmake)

install(FILES client.h task_client.h tensor.h types.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sparseagg/client)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/sparse ${CMAKE_SOURCE_DIR}/base DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sparseagg
        FILES_MATCHING PATTERN "*.h")

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/cmake/sparseaggConfig.cmake.in
                              ${CMAKE_CURRENT_BINARY_DIR}/sparseaggConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
# Until 1.0 a minor version may change the C++ interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/sparseaggConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sparseaggConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/sparseaggConfigVersion.cmake
        DESTINATION ${package_dir})
