"""No model architecture is named in C (architectures are YAML data), and no path of one machine is in
any tracked file."""
import re

import _lint

MODELS = re.compile(
    r"[qkvo]_proj|(?:gate|up|down|gate_up|qkv)_proj|linear_(?:qkv|fc1|fc2|proj)|query_key_value|lm_head"
    r"|embed_tokens|(?<!tie_)word_embeddings|rotary_emb|input_layernorm"
    r"|(?<![a-z])(?:llama|qwen|mistral|mixtral|gemma|gpt_?neox|gpt2|gptj|falcon|deepseek|olmo|bert|phi3?"
    r"|starcoder|baichuan|chatglm)(?![a-z])", re.I)
PATHS = re.compile(r"(?<![\w.$}~-])/(?:work|root|Users|home/[a-z_][\w-]*|opt/wheels)/")
SELF = "tests/lint/test_names.py"


def check(tree):
    findings = []
    for path, text in tree.c_files(*_lint.LAYERS):
        for match in MODELS.finditer(text):
            findings.append(f"{path}:{_lint.line_of(text, match.start())}: names a model: "
                            f"{match.group(0)}")
    for path, text in tree.files.items():
        if path == SELF:
            continue
        for match in PATHS.finditer(text):
            findings.append(f"{path}:{_lint.line_of(text, match.start())}: a path of one machine: "
                            f"{match.group(0)}")
    return findings


BAD = [
    ({"convert/hf.c": 'x = "model.q_proj.weight";\n'}, "q_proj"),
    ({"convert/hf.h": "/* Llama has no bias. */\n"}, "Llama"),
    ({"cli/demo.c": 'name(i, "lm_head.weight");\n'}, "lm_head"),
    ({"README.md": "cd /" + "work/step/x\n"}, "a path of one machine"),
    ({"tests/run.sh": "x=/root/a\n"}, "a path of one machine"),
    ({"tests/a.py": "open('/home/joe/a')\n"}, "a path of one machine"),
]
GOOD = [
    {"convert/hf.c": '/* deepspeed, alphinaud */ x = "attention.weight";\n'},
    {"README.md": "ls $HOME/work/a ./work/b build/work/c q_proj\n"},
]

if __name__ == "__main__":
    _lint.main(check, BAD, GOOD)
