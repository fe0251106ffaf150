#!/usr/bin/env python3
"""The structs that the package declares begin as those of the headers do: declarations.py ROOT.

Structs grow at their ends, and struct_size says how much of one a caller knows; those in WHOLE the library wants whole."""
import os
import re
import sys

from gxc import library

STRUCTS = {
    "frontend/gxc.h": {"gxc_options": library.CompileOptions, "gxc_array": library.CompiledArray},
    "runtime/gxrt.h": {"gxrt_program_info": library.ProgramInfo, "gxrt_value_info": library.ValueInfo,
                       "gxrt_variant_info": library.VariantInfo, "gxrt_session_options": library.SessionOptions,
                       "gxrt_session_info": library.SessionInfo, "gxrt_buffer": library.Buffer, "gxrt_run": library.Run},
}
WHOLE = ("gxc_array", "gxrt_buffer", "gxrt_run")

wrong = []
for header, structs in STRUCTS.items():
    with open(os.path.join(sys.argv[1], header)) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    for name, struct in structs.items():
        body = re.search(r"typedef struct " + name + r" \{(.*?)\n\} " + name + ";", text, re.S).group(1)
        fields = []
        for declaration in body.split(";"):
            declaration = re.sub(r"\[[^]]*\]", "", declaration.strip())
            function = re.search(r"\(\*(\w+)\)", declaration)
            names = [function.group(1)] if function else re.findall(r"(\w+)\s*(?:,|$)", declaration)
            fields += names
        declared = [f for f, *_ in struct._fields_]
        if declared != (fields if name in WHOLE else fields[:len(declared)]):
            wrong.append(f"{name}: {header} has {fields}, the package {declared}")
sys.exit("\n".join(wrong) or 0)
