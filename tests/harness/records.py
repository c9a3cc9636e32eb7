"""Records that exercise every column of the schema, and the real ones."""

import gzip
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).parents[2]

FULL = {
    "id": "full", "rollout_id": "r-1", "problem_id": "p-1", "dataset": "math", "sequence_order": 3, "role": "tool",
    "created_at": "2024-02-29T23:59:59.123456Z", "content": "Grüße, 世界 🚀\n\ttab \"quoted\" \\ \u0000 end",
    "content_type": "application/json", "model_input_string": "<in>", "model_output_string": "<out>", "rationale": "because",
    "problem_text": "1+1?", "user_metadata": "{\"not\": \"parsed\"}", "input_tokens": [1, 2, 2147483647, -2147483648],
    "output_tokens": [0], "num_input_tokens": 4, "num_output_tokens": -1, "output_logprobs": [-0.5, 0.1, -1e-30],
    "input_logprobs": [0.0], "ref_logprobs": [-0.0, 3.4e38], "loss_mask": [0, 1, -128, 127], "advantage": 0.1, "reward": 1,
    "raw_reward": -0.0, "grader_id": "g", "score": 1e-45, "include_in_training": False, "exclude_reason": "none",
    "policy_version": "v1", "relationships": [
        {"target_id": "t1", "relation": "child", "weight": 0.3}, {"target_id": "", "relation": "", "weight": None},
        {"target_id": "t3", "relation": "peer"}],
    "payload_size": 9223372036854775807, "payload_checksum": "crc", "artifact_type": "image",
    "metadata": {"z": [1, 2.5, None, True, "x"], "a": {"big": 9223372036854775807, "neg": -9223372036854775808,
                                                       "unsigned": 18446744073709551615}},
}
MINIMAL = {"id": "minimal", "rollout_id": "r-1"}
EMPTY = {
    "id": "empty", "rollout_id": "", "problem_id": "", "dataset": "", "role": "", "content": "", "content_type": "",
    "model_input_string": "", "input_tokens": [], "output_tokens": [], "output_logprobs": [], "loss_mask": [],
    "relationships": [], "grader_id": "", "metadata": {}, "sequence_order": -2147483648,
}


def with_payload(record_id: str, payload: bytes, **fields) -> dict:
    return {"id": record_id, "rollout_id": "r-blob", "binary_payload": payload, "payload_size": len(payload),
            "artifact_type": "blob", **fields}


def plain(record_id: str, **fields) -> dict:
    return {"id": record_id, "rollout_id": "r-plain", "content": f"content of {record_id}", "reward": 0.25, **fields}


def without_payload(record: dict) -> dict:
    return {key: value for key, value in record.items() if key != "binary_payload"}


def payload_parts(records: list[dict]) -> list[tuple[int, bytes]]:
    return [(index, record["binary_payload"]) for index, record in enumerate(records)
            if record.get("binary_payload") is not None]


def shared_dir() -> pathlib.Path:
    return pathlib.Path(os.environ.get("SARISSA_SHARED", ROOT.parent / "shared"))


def real_experiments() -> dict[str, list[dict]]:
    """Experiment name to its records, in file order."""
    folder = shared_dir() / "fixtures" / "real_rollouts"
    files = sorted(folder.glob("*.jsonl.gz"))
    assert files, f"no real rollouts in {folder}; set SARISSA_SHARED to the folder that holds fixtures/real_rollouts"
    experiments = {}
    for path in files:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            experiments[path.name.removesuffix(".jsonl.gz")] = [json.loads(line) for line in lines]
    return experiments
