# A Python environment with the wheels of a lock and an extension in C, as the user of a service.
# BASE is a Debian with Python and a compiler. Context: python/  the wheels
ARG BASE
FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
ARG PYTHONHASHSEED=0
COPY python/ /python/
RUN python3 -m venv /srv/venv \
 && /srv/venv/bin/pip install --no-index --find-links /python/wheels --require-hashes --no-deps \
        --no-compile --no-cache-dir -r /python/requirements.lock
RUN mkdir /src \
 && cd /src \
 && printf '%s\n' '#include <Python.h>' \
        'static PyObject *answer(PyObject *self, PyObject *unused) { return PyLong_FromLong(42); }' \
        'static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {0}};' \
        'static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "deep", "", -1, methods};' \
        'PyMODINIT_FUNC PyInit_deep(void) { return PyModule_Create(&module); }' > deep.c \
 && printf '%s\n' 'from setuptools import Extension, setup' \
        'setup(name="deep", version="1", ext_modules=[Extension("deep", ["deep.c"])])' > setup.py \
 && /srv/venv/bin/pip wheel --no-index --no-deps --no-build-isolation --no-cache-dir -w /built . \
 && /srv/venv/bin/pip install --no-index --no-deps --no-compile --no-cache-dir /built/*.whl

FROM ${BASE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
RUN echo 'served:x:1000:1000::/home/served:/bin/bash' >> /etc/passwd \
 && install -d -o 1000 -g 1000 /home/served
COPY --from=build --chown=1000:1000 /srv/venv/ /srv/venv/
COPY --chown=1000:1000 Dockerfile /srv/Dockerfile
ENV PATH=/srv/venv/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1
WORKDIR /home/served
USER 1000:1000
RUN python -c 'import deep, psutil; print(deep.answer(), psutil.__version__)' | tee answer
HEALTHCHECK --interval=30s CMD ["python", "-c", "import deep"]
EXPOSE 8000
CMD ["cat", "answer"]
