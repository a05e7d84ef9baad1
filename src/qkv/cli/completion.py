"""qkv completion: what a shell needs to complete qkv's commands and flags."""

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print the script by which a shell completes commands, flags and their choices when Tab is pressed.

    Write it once to where your shell looks for such files, and again after an update; it holds for new shells.

    For example:
      qkv completion bash > ~/.local/share/bash-completion/completions/qkv
      qkv completion zsh > ~/.zfunc/_qkv
      qkv completion fish > ~/.config/fish/completions/qkv.fish

    Args:
      shell: Which shell. Of zsh, the folder must be one of its fpath; bash needs the package bash-completion, or a line
        `source FILE` in ~/.bashrc.
    """
    from qkv.cli import application

    print(application().generate_completion(shell=shell))
