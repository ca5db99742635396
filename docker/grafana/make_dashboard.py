"""Writes sparseagg.json, the Grafana dashboard: make_dashboard.py > sparseagg.json

A panel is a row here: title, unit, and queries with their legends. docs/metrics.md explains the metrics.
"""

from __future__ import annotations

import json

WHO = 'instance=~"$instance"'
PANEL_HEIGHT = 8
WIDTH = 24


def rate(metric: str, by: str = "", labels: str = "") -> str:
    query = f"rate({metric}{{{WHO}{labels}}}[$__rate_interval])"
    return f"sum by ({by}) ({query})" if by else f"sum({query})"


def quantile(share: float, metric: str, labels: str = "") -> str:
    return f"histogram_quantile({share}, {rate(metric + '_bucket', 'le', labels)})"


def gauge(metric: str) -> str:
    return f"{metric}{{{WHO}}}"


ROWS = {
    "Updates": [
        ("Updates", "ops", [(rate("sparseagg_updates_total", "outcome"), "{{outcome}}")]),
        (
            "Payload of accepted updates",
            "Bps",
            [(rate("sparseagg_update_payload_bytes_total"), "payload")],
        ),
        ("Entries of accepted updates", "ops", [(rate("sparseagg_update_nnz_total"), "entries")]),
        (
            "Time to a receipt",
            "s",
            [
                (quantile(q, "sparseagg_submit_seconds"), name)
                for q, name in [(0.5, "half"), (0.99, "99 %")]
            ],
        ),
        (
            "Refusals by reason",
            "ops",
            [(rate("sparseagg_refusals_total", "reason, retry"), "{{reason}}, retry {{retry}}")],
        ),
    ],
    "Rounds and reductions": [
        (
            "Rounds by state",
            "short",
            [(f"sum by (state) ({gauge('sparseagg_rounds')})", "{{state}}")],
        ),
        (
            "Changes of rounds",
            "ops",
            [(rate("sparseagg_round_changes_total", "state"), "{{state}}")],
        ),
        (
            "From sealed to published",
            "s",
            [
                (quantile(q, "sparseagg_publish_seconds"), name)
                for q, name in [(0.5, "half"), (0.99, "99 %")]
            ],
        ),
        (
            "Reducing: processor share by plan",
            "percentunit",
            [(rate("sparseagg_reduce_seconds_total", "backend, plan"), "{{plan}} on {{backend}}")],
        ),
        (
            "Reducing: measured against predicted",
            "short",
            [
                (
                    f"{rate('sparseagg_reduce_seconds_total', 'plan')} / {rate('sparseagg_reduce_predicted_seconds_total', 'plan')}",
                    "{{plan}}",
                )
            ],
        ),
        (
            "Folds and publications that wait",
            "short",
            [(gauge("sparseagg_waiting_tasks"), "{{instance}}")],
        ),
    ],
    "Calls": [
        (
            "Calls by method",
            "ops",
            [(rate("grpc_server_handled_total", "grpc_method"), "{{grpc_method}}")],
        ),
        (
            "Calls that failed",
            "ops",
            [
                (
                    rate("grpc_server_handled_total", "grpc_method, grpc_code", ',grpc_code!="OK"'),
                    "{{grpc_method}} {{grpc_code}}",
                )
            ],
        ),
        (
            "Unary calls: 99 of 100 within",
            "s",
            [
                (
                    f"histogram_quantile(0.99, {rate('grpc_server_handling_seconds_bucket', 'le, grpc_method', ',grpc_type=' + json.dumps('unary'))})",
                    "{{grpc_method}}",
                )
            ],
        ),
        (
            "Traffic",
            "Bps",
            [
                (rate("sparseagg_received_bytes_total"), "in"),
                (rate("sparseagg_sent_bytes_total"), "out"),
            ],
        ),
    ],
    "Memory, disk and process": [
        (
            "Staging memory",
            "bytes",
            [
                (gauge("sparseagg_staged_bytes"), "used"),
                (gauge("sparseagg_staged_bytes_max"), "limit"),
            ],
        ),
        (
            "Aggregation memory",
            "bytes",
            [
                (gauge("sparseagg_aggregation_bytes"), "used"),
                (gauge("sparseagg_aggregation_bytes_max"), "limit"),
            ],
        ),
        ("Process memory", "bytes", [(gauge("process_resident_memory_bytes"), "{{instance}}")]),
        (
            "Processor",
            "percentunit",
            [(f"rate({gauge('process_cpu_seconds_total')}[$__rate_interval])", "{{instance}}")],
        ),
        (
            "Commits",
            "s",
            [
                (quantile(q, "sparseagg_store_commit_seconds"), name)
                for q, name in [(0.5, "half"), (0.99, "99 %")]
            ],
        ),
        (
            "Updates in a commit",
            "short",
            [
                (
                    f"{rate('sparseagg_store_commit_updates_sum')} / {rate('sparseagg_store_commit_updates_count')}",
                    "mean",
                )
            ],
        ),
        (
            "Free on the disk",
            "bytes",
            [
                (gauge("sparseagg_store_free_bytes"), "free"),
                (gauge("sparseagg_store_free_bytes_min"), "refuses below"),
            ],
        ),
        (
            "Open files",
            "short",
            [
                (gauge("process_open_fds"), "{{instance}}"),
                (gauge("sparseagg_open_uploads"), "uploads"),
            ],
        ),
        (
            "Unfinished uploads on the disk",
            "bytes",
            [
                (gauge("sparseagg_upload_disk_bytes"), "used"),
                (gauge("sparseagg_upload_disk_bytes_max"), "limit"),
            ],
        ),
    ],
}


def panel(
    number: int, x: int, y: int, title: str, unit: str, queries: list[tuple[str, str]]
) -> dict:
    return {
        "id": number,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH // 3, "h": PANEL_HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8, "lineWidth": 1}},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi"},
        },
        "targets": [
            {"refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend}
            for i, (expr, legend) in enumerate(queries)
        ],
    }


def dashboard() -> dict:
    panels, y = [], 0
    for title, rows in ROWS.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDTH, "h": 1},
            }
        )
        y += 1
        for i, row in enumerate(rows):
            panels.append(
                panel(len(panels) + 1, i % 3 * WIDTH // 3, y + i // 3 * PANEL_HEIGHT, *row)
            )
        y += (len(rows) + 2) // 3 * PANEL_HEIGHT
    return {
        "uid": "sparseagg",
        "title": "sparseagg",
        "tags": ["sparseagg"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Source"},
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Server",
                    "datasource": {"type": "prometheus", "uid": "${source}"},
                    "query": {
                        "query": "label_values(sparseagg_build_info, instance)",
                        "refId": "A",
                    },
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "panels": panels,
    }


if __name__ == "__main__":
    print(json.dumps(dashboard(), indent=1))
