/** A fragment as a person edits it: kept for all tabs of its view, and compared with what is saved. */

import type { appApi } from "@viamrobotics/sdk";
import type { ConfigProblem } from "../../machine/link/config_service.ts";
import { jsonProblems, prettyJson } from "../machine/configuration_text.ts";

export class EditedFragment {
  /** What the person began with; a change by somebody else is refused when it is saved. */
  saved = $state.raw(stateOf());
  text = $state("");
  name = $state("");
  visibility = $state(1);

  constructor(one: appApi.Fragment) {
    this.take(one);
  }

  get isChanged(): boolean {
    const { text, name, visibility, saved } = this;
    return text !== saved.text || name !== saved.name || visibility !== saved.visibility;
  }

  /** Why the text is no JSON, at its places. */
  get problems(): readonly ConfigProblem[] {
    return jsonProblems(this.text);
  }

  /** The text for previews, if it is another one than the saved and can be read. */
  get unsavedText(): string | undefined {
    return this.text !== this.saved.text && this.problems.length === 0 ? this.text : undefined;
  }

  /** Begins anew with what is saved. */
  take(one: appApi.Fragment): void {
    this.saved = stateOf(one);
    this.discard();
  }

  /** Goes on from what has been saved as `sent`; what was typed since stays. */
  accept(one: appApi.Fragment, sent: FragmentState): void {
    this.saved = stateOf(one);
    const { saved } = this;
    if (this.text === sent.text) this.text = saved.text;
    if (this.name === sent.name) this.name = saved.name;
    if (this.visibility === sent.visibility) this.visibility = saved.visibility;
  }

  discard(): void {
    ({ text: this.text, name: this.name, visibility: this.visibility } = this.saved);
  }
}

export interface FragmentState {
  readonly text: string;
  readonly name: string;
  readonly visibility: number;
}

function stateOf(one?: appApi.Fragment) {
  return {
    text: prettyJson(one?.fragment?.toJsonString() ?? ""),
    name: one?.name ?? "",
    visibility: one?.visibility || 1,
    updated: one?.lastUpdated,
  };
}
