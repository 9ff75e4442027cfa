# Writes the bytes of the file FROM to TO, as a C initializer.
file(READ ${FROM} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${TO} "${bytes}\n")
