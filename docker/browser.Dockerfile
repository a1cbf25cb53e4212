# The image of sandboxes with a browser: the sandbox image's packages, Chromium, fonts and playwright.
# docker/browser-image builds it, or makes the same from Debian packages where no registry answers.
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS browser
COPY docker/sandbox-packages.txt docker/browser-packages.txt docker/browser-requirements.txt docker/sandbox-setup /opt/recipe/
# xargs has a status of its own, and sh no pipefail.
# hadolint ignore=DL4006
RUN apt-get update \
 && sed 's/#.*//' /opt/recipe/sandbox-packages.txt /opt/recipe/browser-packages.txt \
  | DEBIAN_FRONTEND=noninteractive xargs apt-get install --yes --no-install-recommends \
 && pip install --no-cache-dir --break-system-packages --requirement /opt/recipe/browser-requirements.txt \
 && /opt/recipe/sandbox-setup \
 && rm -rf /opt/recipe
ENV LANG=C.UTF-8 \
    PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /workspace
USER 1000:1000
CMD ["/bin/bash"]
