# Installs `libraries`, their `public_headers`, and what find_package(Cria) and pkg-config read.
include(CMakePackageConfigHelpers)
set(development COMPONENT development)
install(TARGETS ${libraries} EXPORT CriaTargets
  LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(FILES ${public_headers} TYPE INCLUDE ${development})

set(cmake ${CMAKE_INSTALL_LIBDIR}/cmake/Cria)
install(EXPORT CriaTargets NAMESPACE Cria:: FILE CriaConfig.cmake
  DESTINATION ${cmake} ${development})
set(version ${CMAKE_CURRENT_BINARY_DIR}/CriaConfigVersion.cmake)
write_basic_package_version_file(${version} COMPATIBILITY SameMajorVersion)
install(FILES ${version} DESTINATION ${cmake} ${development})

set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH include /${pkgconfig} /${CMAKE_INSTALL_INCLUDEDIR})
foreach(library ${libraries})
  target_include_directories(${library} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  configure_file(cria.pc.in ${library}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${library}.pc
    DESTINATION ${pkgconfig} ${development})
endforeach()
