# Debian with Cria built in /cria/build and its packages in /cria/build/packages, by
# the commands of README.md.
FROM debian:12
COPY . /cria
WORKDIR /cria
RUN scripts/setup.sh
RUN cpack --config build/CPackConfig.cmake -B build/packages
