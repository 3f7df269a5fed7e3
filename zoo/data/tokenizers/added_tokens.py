"""Tokens that are added to a published tokenizer, and the roles of its special tokens.

tokenizer_config.json names the special tokens by role and lists added tokens with their ids
("added_tokens_decoder"). Older files have the roles in special_tokens_map.json, which then comes
first, and the tokens in added_tokens.json. The order is that of `transformers`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ConfigError
from zoo.files import read_json

SETTINGS_FILE, MAP_FILE, ADDED_FILE = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
COMPANIONS = (SETTINGS_FILE, MAP_FILE, ADDED_FILE)
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
LISTS = ("additional_special_tokens", "extra_special_tokens")
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class AddedToken(NamedTuple):
    """One token.

    Attributes:
        content: its text.
        flags: of "single_word", "lstrip", "rstrip", "normalized" and "special", those that a file
            gives.
    """

    content: str
    flags: Mapping[str, bool]


@dataclass(frozen=True)
class AddedTokens:
    """Tokens that are added to a tokenizer, by the files beside it.

    Attributes:
        by_id: added tokens with the ids that they must have.
        roles: special tokens by role, e.g. {"bos_token": "<s>"}.
        special: all special tokens that have a role or are listed, in the order of `transformers`.
    """

    by_id: Mapping[int, AddedToken] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    special: tuple[AddedToken, ...] = ()

    @classmethod
    def beside(cls, path: Path) -> "AddedTokens":
        """Reads the files beside a tokenizer's.

        Raises:
            ConfigError: a file cannot be read, or holds something else; naming it and the entry.
        """
        settings = read_object(path.with_name(SETTINGS_FILE))
        file = path.with_name(SETTINGS_FILE)
        if "added_tokens_decoder" in settings:
            given = settings["added_tokens_decoder"]
            if not isinstance(given, dict):
                raise ConfigError(
                    f"data.tokenizer.path: {file}: added_tokens_decoder must be an object of tokens by id"
                )
            listed = {
                _id(file, key): _token(file, f"added_tokens_decoder[{key}]", value) for key, value in given.items()
            }
        else:
            overrides = read_object(path.with_name(MAP_FILE))
            both = [*(settings.get(LISTS[0]) or ()), *(overrides.get(LISTS[0]) or ())]
            settings = {**settings, **overrides} | ({LISTS[0]: both} if both else {})
            listed = {}
        special = tuple(_special_tokens(file, settings))
        if "added_tokens_decoder" not in settings:
            names = {token.content for token in special}
            file = path.with_name(ADDED_FILE)
            for content, id in read_object(file).items():
                flags = {"special": content in names, "normalized": content not in names}
                listed[_id(file, id)] = AddedToken(content, flags)
        roles = {role: _token(file, role, settings[role]).content for role in ROLES if settings.get(role) is not None}
        return cls(dict(sorted(listed.items())), roles, special)

    def is_special(self, token: AddedToken) -> bool:
        """Returns whether a token is special: by its own flag, by a role or by a list."""
        return token.flags.get("special", False) or token.content in {other.content for other in self.special}


def read_object(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file; empty if there is no such file.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    if not path.is_file():
        return {}
    try:
        content = read_json(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"data.tokenizer.path: {path} cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ConfigError(f"data.tokenizer.path: {path} holds no JSON object")
    return content


def _id(file: Path, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).isdecimal():
        raise ConfigError(
            f"data.tokenizer.path: {file}: {value!r} is no id of a token; expected a whole number from 0 on"
        )
    return int(value)


def _token(file: Path, where: str, value: Any) -> AddedToken:
    if isinstance(value, str):
        return AddedToken(value, {})
    if not isinstance(value, dict) or not isinstance(value.get("content"), str):
        raise ConfigError(
            f"data.tokenizer.path: {file}: {where} is {value!r:.80}; expected the text of a token, or an "
            'object with its "content"'
        )
    flags = {name: value[name] for name in _FLAGS if name in value}
    if wrong := next((name for name, flag in flags.items() if not isinstance(flag, bool)), None):
        raise ConfigError(f"data.tokenizer.path: {file}: {where} has {wrong}={flags[wrong]!r}; expected true or false")
    return AddedToken(value["content"], flags)


def _special_tokens(file: Path, settings: Mapping[str, Any]) -> Iterator[AddedToken]:
    found: dict[str, AddedToken] = {}
    for name in (*ROLES, *LISTS):
        value = settings.get(name)
        values = list(value.values()) if isinstance(value, dict) and name == LISTS[1] else value
        for one in values if isinstance(values, list) else [] if value is None else [value]:
            token = _token(file, name, one)
            found.setdefault(token.content, token)
    yield from (token for content, token in found.items() if content)


def add_tokens(model: Any, added: AddedTokens, path: Path) -> None:
    """Adds tokens to a model of the `tokenizers` library, as `transformers` does.

    Raises:
        ConfigError: a token would have another id than its file says.
    """
    from tokenizers import AddedToken as LibraryToken

    known = {token.content: token for token in model.get_added_tokens_decoder().values()}
    listed = {token.content: token for token in added.by_id.values()}
    tokens = [*added.by_id.values()]
    tokens += [token for token in added.special if token.content not in listed and token.content not in known]
    for token in tokens:
        flags = {**token.flags, "special": added.is_special(token)}
        made = LibraryToken(token.content, **({"normalized": not flags["special"]} | flags))
        if repr(made) != repr(known.get(token.content)):
            model.add_tokens([made])
    for id, token in added.by_id.items():
        if (found := model.token_to_id(token.content)) != id:
            raise ConfigError(
                f"data.tokenizer.path: beside {path}, the added token {token.content!r} has the id {id}, and by the "
                f"vocabulary it has {found}; the files do not belong together"
            )
