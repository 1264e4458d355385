"""Runs the Python example of verification/cli/README.md and lets zeroproof verify the file it writes.

usage: recorded_python_test.py ZEROPROOF FOLDER README
"""

import os
import re
import subprocess
import sys

zeroproof, folder, readme = sys.argv[1:4]
with open(readme, encoding="utf-8") as file:
    examples = re.findall(r"^```python\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE)
assert len(examples) == 1, "the document has one Python example"
os.chdir(folder)
exec(compile(examples[0], "the example of the document", "exec"), {})
result = subprocess.run([zeroproof, "verify", "--gradients", "gradients.safetensors", "--world", "self,threads:3"],
                        check=False, capture_output=True, text=True)
print(result.stdout[-600:], result.stderr)
assert result.returncode == 0
assert "gradients: gradients.safetensors" in result.stdout
