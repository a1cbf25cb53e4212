# The image of a sandbox. `make sandbox-image` builds it, or makes the same image from Debian packages
# where no image registry can be reached; the packages and the set-up are one file each, used by both.
ARG BASE=debian:bookworm-slim
FROM ${BASE}

COPY sandbox-packages.txt sandbox-setup /opt/recipe/
RUN apt-get update \
 && sed 's/#.*//' /opt/recipe/sandbox-packages.txt \
  | DEBIAN_FRONTEND=noninteractive xargs apt-get install --yes --no-install-recommends \
 && /opt/recipe/sandbox-setup \
 && rm -rf /opt/recipe

ENV LANG=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /workspace
USER 1000:1000
CMD ["/bin/bash"]
