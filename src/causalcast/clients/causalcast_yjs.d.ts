// Types of causalcast_yjs.js.

import type { Awareness } from "y-protocols/awareness";
import type { Doc } from "yjs";
import type { CausalcastError, Client, Message } from "./causalcast.js";

/** All may be left out. */
export interface ProviderOptions {
  /** Who is there, and where their cursors are. */
  awareness?: Awareness | null;
  /** Handlers of other groups that are read in one causal order with the document. */
  also?: Record<string, (message: Message) => unknown>;
  /** It has the document already, and was never away. */
  keeps?: boolean;
  /** After how many milliseconds without an answer nobody is there. */
  aloneAfter?: number;
}

/** Keeps a document equal to those of all others in a group. */
export class CausalcastProvider {
  constructor(client: Client, group: string, doc: Doc, options?: ProviderOptions);
  readonly doc: Doc;
  readonly awareness: Awareness | null;
  /** Whether it has the document, and answers others. */
  readonly isWhole: boolean;
  /** Called when what it publishes or reads is refused. */
  onfailure: (error: CausalcastError) => unknown;
  /** Resolves when it has the document: from whom. */
  readonly synced: Promise<"answer" | "kept" | "keeps">;
  /** Resolves when every edit that was made here is durable at a node. */
  saved(): Promise<void>;
  /** Publish and read nothing more. The client stays connected. */
  destroy(): Promise<void>;
}
