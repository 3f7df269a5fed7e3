# zoo for CPUs, or with --build-arg EXTRAS=cuda for NVIDIA GPUs:
#
#     docker build --tag zoo .
#     docker run --rm --volume "$PWD/runs:/home/zoo/runs" zoo run norm_placement:quick
#
#     docker build --tag zoo-cuda --build-arg EXTRAS=cuda .
#     docker run --rm --gpus all zoo-cuda doctor
#
# JAX's wheels bring CUDA and cuDNN with them, so both have the same base; the host needs NVIDIA's driver alone.
FROM python:3.12-slim

ARG EXTRAS=""

WORKDIR /opt/zoo
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY docs/glossary.md docs/glossary.md
COPY configs configs
COPY experiments experiments
COPY zoo zoo
RUN pip install --no-cache-dir ".[${EXTRAS}]" --constraint constraints.txt

# Runs are written below the working directory, which a volume keeps.
WORKDIR /home/zoo
ENTRYPOINT ["zoo"]
CMD ["--help"]
