# CRIA_VERSION, as cria.h says it: the one place that does.
set(version_header ${CMAKE_CURRENT_LIST_DIR}/cria.h)
file(STRINGS ${version_header} numbers REGEX "^#define CRIA_VERSION_(MAJOR|MINOR|PATCH) ")
list(TRANSFORM numbers REPLACE "^.* " "")
list(JOIN numbers "." CRIA_VERSION)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${version_header})
