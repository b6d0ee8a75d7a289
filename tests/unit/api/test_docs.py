"""The page at /docs shows what the OpenAPI document says."""

from __future__ import annotations

from kith.api import docs


def test_a_description_is_shown_in_paragraphs_and_lists_with_its_code() -> None:
    events = "- `new_post`: a <post>\n  that is new\n- `reset`"
    description = f"The feed as `events`.\nSent at once:\n\n{events}\n\nLimit: one."
    operation = {"tags": ["home"], "summary": "Stream", "description": description, "responses": {}}
    page = docs.render({"info": {"title": "T", "version": "1"}, "paths": {"/feed/stream": {"get": operation}}})
    assert "<p>The feed as <code>events</code>.\nSent at once:</p>" in page
    assert "<ul><li><code>new_post</code>: a &lt;post&gt;\n  that is new</li><li><code>reset</code></li></ul>" in page
    assert "<p>Limit: one.</p>" in page


def test_an_operation_without_a_description_has_no_empty_paragraph() -> None:
    operation = {"tags": ["home"], "summary": "Stream", "description": "", "responses": {}}
    page = docs.render({"info": {"title": "T", "version": "1"}, "paths": {"/feed/stream": {"get": operation}}})
    assert "<p></p>" not in page
