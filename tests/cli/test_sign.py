"""sign and verify --signature: what they write, say and return (specs/signing.md, specs/cli.md)."""
import base64
import hashlib
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import _cli
from _cli import Run, exits, expect, write_st

SPEC, CODES = _cli.spec_keys(), _cli.severities_and_codes()


def pem(kind, der):
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[i:i + 64] for i in range(0, len(text), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"


# Published test keys: RFC 8032 (test 1), RFC 6979 (P-256).
ED_SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
ED_PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
EC_SECRET = bytes.fromhex("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
EC_PUBLIC = bytes.fromhex("0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
                          "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299")
KEYS = {
    "ed.pem": pem("PRIVATE KEY", bytes.fromhex("302e020100300506032b657004220420") + ED_SECRET),
    "ed.pub": pem("PUBLIC KEY", bytes.fromhex("302a300506032b6570032100") + ED_PUBLIC),
    "ec.pem": pem("EC PRIVATE KEY", bytes.fromhex("30770201010420") + EC_SECRET +
                  bytes.fromhex("a00a06082a8648ce3d030107a144034200") + EC_PUBLIC),
    "ec.pub": pem("PUBLIC KEY", bytes.fromhex(
        "3059301306072a8648ce3d020106082a8648ce3d030107034200") + EC_PUBLIC),
}


def signature_of(*argv):
    """The signature in verify's document, which is as specs/cli.md has it, and the exit code."""
    run = Run("verify", *argv, "--json")
    document = json.loads(run.out)
    if "framework" in document:
        _cli.check_document(run, SPEC, CODES)
    return document["signature"], run.code


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at, 2 if at < 0 else 0)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def check_own():
    exits(0, "demo", "run")
    run = exits(0, "sign", "run", "--key", "ed.pem", say="32 tensors, root ")
    expect("one line", run.out.count("\n") == 1 and not run.err, run)
    exits(5, "sign", "run", "--key", "ed.pem", say="run/checkpoint.sig: exists")
    document = _cli.check_document(
        Run("sign", "run", "--key", "ec.pem", "--overwrite", "--json"), SPEC, CODES)
    hint = hashlib.sha256(KEYS["ec.pub"].encode()).hexdigest()
    root = exits(0, "hash", "run", "--write", "list").out.split()[1]
    expect("sign --json", (document["format"], document["key"], document["hint"],
                           document["root"], document["tensors"]) ==
           ("shardwright", "p-256", hint, root, 32), document)
    exits(0, "verify", "run", "--signature", "run/checkpoint.sig", "--key", "ec.pub",
          say="signed, and it holds the same")
    found, code = signature_of("run", "--signature", "run/checkpoint.sig", "--key", "ec.pub")
    expect("verify --json", code == 0 and found["verdict"] == "content" and
           found["name"] == "run" and found["hint"] == hint and
           found["tensors"] == found["matched_tensors"] == 32, found)
    exits(0, "convert", "run", "again", "--to", "dcp:ranks=7", "-q")
    exits(0, "verify", "again", "--signature", "run/checkpoint.sig", "--key", "ec.pub",
          "--level", "structure", say="ok")
    found, code = signature_of("run", "--signature", "run/checkpoint.sig", "--key", "ed.pub")
    expect("another key: 1", code == 1 and found["verdict"] == "not", found)
    # the same names, one bit of a tensor: safetensors carry no CRC
    write_st("w.safetensors", {"w": ("I32", [4], bytes(range(16)))})
    exits(0, "sign", "w.safetensors", "--key", "ed.pem", "-q")
    exits(0, "verify", "w.safetensors", "--signature", "w.safetensors.sig", "--key", "ed.pub",
          "--level", "digest")
    flip("w.safetensors", -3)
    run = exits(1, "verify", "w.safetensors", "--signature", "w.safetensors.sig", "--key",
                "ed.pub", say="UNTRUSTED: it is not what was signed")
    expect("the tensor is named", "[digest-mismatch]" in run.out and '"w"' in run.out or
           " w:" in run.out, run)
    expect("what to do", "next: digest-mismatch: " in run.out, run)


def check_oms():
    os.makedirs("model/sub")
    for name, text in (("config.json", "{}\n"), ("empty", ""), ("sub/a.bin", "abc"), ("sub-x", "1")):
        with open(f"model/{name}", "w", encoding="utf-8") as file:
            file.write(text)
    exits(0, "sign", "model", "--key", "ec.pem", "--format", "oms", say="4 files, root ")
    with open("model/model.sig", encoding="utf-8") as file:
        bundle = json.load(file)
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    names = [r["name"] for r in statement["predicate"]["resources"]]
    expect("in the order of names", names == sorted(names) and len(names) == 4, names)
    expect("the subject", statement["subject"][0]["name"] == "model", statement)
    digests = b"".join(bytes.fromhex(r["digest"]) for r in statement["predicate"]["resources"])
    expect("the root", statement["subject"][0]["digest"]["sha256"] ==
           hashlib.sha256(digests).hexdigest(), statement)
    found, code = signature_of("model", "--signature", "model/model.sig", "--key", "ec.pub")
    expect("verify --json", code == 0 and found["verdict"] == "files" and found["format"] == "oms"
           and found["files"] == found["matched_files"] == 4 and found["hashed_bytes"] == 7, found)
    shutil.copytree("model", "changed")
    flip("changed/sub/a.bin", 0)
    with open("changed/more", "w", encoding="utf-8") as file:
        file.write("x")
    os.remove("changed/empty")
    run = exits(1, "verify", "changed", "--signature", "changed/model.sig", "--key", "ec.pub",
                say="DEFECTIVE: 3 defects")
    for what in ("sub/a.bin: its bytes are not those", "more: it is here, and was not signed",
                 "empty: it was signed, and is not here"):
        expect(f"says {what}", what in run.out, run)
    # a checkpoint is verified as one as well
    exits(0, "convert", "run", "hf", "--to", "hf", "-q")
    exits(0, "sign", "hf", "--key", "ec.pem", "--format", "oms", "--out", "hf.sig", "-q")
    run = exits(0, "verify", "hf", "--signature", "hf.sig", "--key", "ec.pub",
                say="signed, and these are the very files")
    expect("and as a checkpoint", "hf: hf, 8 tensors" in run.out, run)
    exits(0, "sign", "hf", "--key", "ec.pem", "--format=oms", "--out", "hf.sig", "--overwrite")
    os.symlink("config.json", "model/link")
    exits(5, "sign", "model", "--key", "ec.pem", "--format", "oms", "--overwrite",
          say="link: is a symbolic link")


def check_refusals():
    for code, say, line in (
            (2, "--key is needed", "sign run"),
            (2, "a path is needed", "sign --key ed.pem"),
            (2, "--format takes shardwright or oms", "sign run --key ed.pem --format pgp"),
            (2, "nokey", "sign run --key nokey"),
            (2, "is a public key", "sign run --key ed.pub"),
            (2, "holds no private key", "sign run --key list"),
            (2, "are signed with EC keys", "sign run --key ed.pem --format oms"),
            (2, "no checkpoint", "sign model --key ed.pem"),
            (2, "go together", "verify run --signature run/checkpoint.sig"),
            (2, "go together", "verify run --key ed.pub"),
            (2, "is a private key", "verify run --signature run/checkpoint.sig --key ed.pem"),
            (2, "none.sig", "verify run --signature none.sig --key ed.pub"),
            (2, "not of a --run", "verify run --signature s --key ed.pub --run"),
            (1, "[signature-malformed]", "verify run --signature list --key ed.pub"),
            (5, "is no signature, and is not replaced",
             "sign run --key ed.pem --out list --overwrite")):
        exits(code, *line.split(), say=say)
        if code != 1 and "--run" not in line:
            run = Run(*line.split(), "--json")
            expect(f"{line} --json: {code}", run.code == code, run)


if __name__ == "__main__":
    for name, text in KEYS.items():
        with open(name, "w", encoding="utf-8") as out:
            out.write(text)
    check_own()
    check_oms()
    check_refusals()
    _cli.finish()
