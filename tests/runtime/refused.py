"""refused.py FOLDER GXC GXRUN...: command lines and files that both programs refuse, each with its exit code and words."""
import pathlib
import struct
import subprocess
import sys

folder, gxc, gxrun = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[-1]


def npy(header: str, data: bytes, version: int = 1) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H", len(header)) + header.encode() + data


def header(dtype: str, shape: str = "(4,)") -> str:
    return "{'descr': %s, 'fortran_order': False, 'shape': %s, }\n" % (dtype, shape)


HLO = "HloModule m\nENTRY e {\n  a = f32[4] parameter(0)\n  ROOT b = f32[4] %s(a)\n}\n"
FILES = {
    "a.hlo": HLO % "negate", "other.hlo": HLO % "abs", "five.hlo": (HLO % "abs").replace("4", "5"),
    "two.hlo": (HLO % "abs").replace("ROOT", "c = f32[4] parameter(1)\n  ROOT"),
    "version.npy": npy(header("'<f4'"), bytes(16), 9), "object.npy": npy(header("'|O'"), bytes(16)),
    "record.npy": npy(header("[('a', '<f4')]"), bytes(16)), "big.npy": npy(header("'>f4'"), bytes(16)),
    "damaged.npy": npy("{'descr': ", bytes(16)), "shape.npy": npy(header("'<f4'", "(5,)"), bytes(20)),
    "more.npy": npy(header("'<f4'"), bytes(20)), "less.npy": npy(header("'<f4'"), bytes(8)),
    "none.npy": b"", "head.npy": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30), "text.npy": npy(header("'<U3'"), bytes(48)),
    "character.json": '{"a": "\\ud800"}', "escape.json": '{"a": "\\q"}', "open.json": '{"a": "x', "control.json": '{"a": "\x01"}',
    "deep.json": "[" * 2000, "number.json": '{"a": 1}', "version.json": '{"gxc_manifest": 7}', "other.json": '{"gxc_manifest": 1}',
}

# The program, its arguments, the exit code, what it says.
CASES = [
    (gxc, "a.hlo --emit=hlo --print=wide", 2, 'unknown print form "wide"; forms are default, long, short'),
    (gxc, "a.hlo --assembler=as", 2, 'unknown assembler "as"; assemblers are nvjitlink, ptxas'),
    (gxc, "a.hlo --libraries=cublast", 2, 'unknown library "cublast"; libraries are all, none, cublaslt, cudnn'),
    (gxc, "a.hlo --set=nothing=1", 2, 'unknown setting "nothing=1"; gxc --list-settings names them'),
    (gxc, "a.hlo --set=fold-max-elements=x", 2, 'setting "fold-max-elements=x" has no value that it takes'),
    (gxc, "a.hlo --passes=nope", 2, 'unknown pass "nope"; gxc --list-passes names them'),
    (gxc, "a.hlo -O7", 2, "-O7: a number from 0 to 2 is expected"),
    (gxc, "a.hlo -Oabc", 2, "-Oabc: a number from 0 to 2 is expected"),
    (gxc, "a.hlo --replicas=+2", 2, "+2: a number from"),
    (gxc, "a.hlo --verify --emit=nope", 2, 'unknown --emit form "nope"'),
    (gxc, "a.hlo --report=xml", 2, '--report takes text or json, not "xml"'),
    (gxc, "a.hlo --fp-contract=maybe", 2, '--fp-contract takes on or off, not "maybe"'),
    (gxc, "a.hlo other.hlo", 2, "one input only; found a.hlo and other.hlo"),
    (gxc, "a.hlo --json", 2, "--json is for lists; it needs one of --list-passes"),
    (gxc, "a.cubin --emit=hlo", 1, "this is an ELF file (a compiled program?), not HLO text"),
    (gxrun, "a.cubin --rtol=-1", 2, "--rtol=-1: a number that is not negative is expected"),
    (gxrun, "a.cubin --input=random:x", 2, "--input=random:x: random:SEED, SEED a number"),
    (gxrun, "a.cubin --input=@", 2, "--input=@: @FILE or random[:SEED] is expected"),
    (gxrun, "a.cubin --output=x", 2, "--output=x: @FILE is expected"),
    (gxrun, "a.cubin --outputs=a.hlo", 1, "--outputs=a.hlo: a folder, .npz or .safetensors is expected"),
    (gxrun, "a.cubin a.hlo", 2, "one program is expected, found a.cubin and a.hlo"),
    (gxrun, "--device=emu", 2, "which program? give a cubin that gxc made, or HLO"),
    (gxrun, "a.hlo --device=ref --tune=x", 2, "--tune: is for compiled programs, not for the reference evaluator"),
    (gxrun, "a.cubin --rank=3 --world=2", 2, "--rank=R --world=W go together, R less than W"),
    (gxrun, "a.cubin --compare=@a.npy --compare=@b.npy", 1, "2 files to compare with; the program gives 1 results"),
    (gxrun, "a.cubin --hlo=none.hlo --compare=ref", 1, "none.hlo: No such file or directory"),
    (gxrun, "a.cubin --hlo=other.hlo --compare=ref", 1, "a.cubin was compiled from another module than other.hlo"),
    (gxrun, "a.cubin --hlo=two.hlo --compare=ref", 1, "two.hlo is another program than a.cubin"),
    (gxrun, "a.cubin --hlo=five.hlo --compare=ref", 1, "an input is f32 with 16 bytes, the parameter is f32[5]"),
    (gxrun, "a.cubin --input=@version.npy", 1, "a .npy file of version 9, known are 1 to 3"),
    (gxrun, "a.cubin --input=@object.npy", 1, "the file holds Python objects: save an array of numbers"),
    (gxrun, "a.cubin --input=@record.npy", 1, "the file holds records of several fields: save an array of numbers"),
    (gxrun, "a.cubin --input=@big.npy", 1, "the file is big-endian: save it as little-endian"),
    (gxrun, "a.cubin --input=@damaged.npy", 1, "the header of the .npy file is damaged"),
    (gxrun, "a.cubin --input=@shape.npy", 1, "the array has shape (5,), the program wants (4,)"),
    (gxrun, "a.cubin --input=@more.npy", 1, "there are bytes behind the array"),
    (gxrun, "a.cubin --input=@less.npy", 1, "the file is cut off: 8 bytes of 16"),
    (gxrun, "a.cubin --input=@none.npy", 1, "this is not a .npy file"),
    (gxrun, "a.cubin --input=@head.npy", 1, "the header of the .npy file has 1073741824 bytes, at most 65536 are read"),
    (gxrun, "a.cubin --input=@text.npy", 1, "the file holds U3, the program wants f32: an array of f4"),
    (gxrun, "a.cubin --manifest=character.json", 1, "byte 13: \\u stands for no character"),
    (gxrun, "a.cubin --manifest=escape.json", 1, "byte 9: an unknown escape in a string"),
    (gxrun, "a.cubin --manifest=open.json", 1, "byte 7: a string without an end"),
    (gxrun, "a.cubin --manifest=control.json", 1, "byte 8: a control character in a string"),
    (gxrun, "a.cubin --manifest=deep.json", 1, "values are nested deeper than 32 levels"),
    (gxrun, "a.cubin --manifest=number.json", 1, "it has no number gxc_manifest"),
    (gxrun, "a.cubin --manifest=version.json", 4, "a manifest of version 7, known is 1"),
    (gxrun, "a.cubin --manifest=other.json", 1, "its arguments and results are not those of a.cubin"),
]


def main() -> int:
    folder.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    subprocess.run([gxc, "a.hlo", "--target=emu", "-o", "a.cubin"], cwd=folder, check=True, capture_output=True)
    wrong = 0
    for program, arguments, code, words in CASES:
        device = ["--device=emu"] if program == gxrun and "--device" not in arguments else []
        p = subprocess.run([program, *arguments.split(), *device], cwd=folder, capture_output=True, text=True)
        if p.returncode != code or words not in p.stderr:
            wrong += 1
            print(f"{arguments}: exit {p.returncode}, wanted {code}: {words}\n{p.stderr}")
    print(f"{len(CASES)} cases, {wrong} wrong")
    return wrong != 0


sys.exit(main())
