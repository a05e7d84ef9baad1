// Every word that the page says, in English and Chinese.

const ENGLISH = {
  title: "Queries, keys, values",
  tagline: "Translate a sentence, and see what the model looks at.",
  skip: "Skip to the pictures",
  language: "Language", theme: "Theme", themeAuto: "Auto", themeLight: "Light", themeDark: "Dark",
  model: "Model", beam: "Beam", source: "Text to translate", target: "Translation",
  placeholder: "Type a sentence …", examples: "Try", working: "Translating …",
  nothing: "Type a sentence; its translation and its pictures appear here.",
  noLook: "There are no pictures of this text: {reason}.",
  score: "score {score}", scoreAbout: "log probability, divided by the length penalty: 0 is certain",
  alternatives: "Other translations", copyLink: "Copy link", copied: "Link copied",
  sourceWords: "Words of the text", targetWords: "Words of the translation",
  aligned: "{word} ↔ {others}", alignedNone: "{word} is aligned with nothing",
  wordHint: "Point at a word, or move along the words with the arrow keys, to see what it is aligned with.",
  views: "Views", attention: "Attention", decoding: "Decoding", explain: "Q K V", positions: "Positions",
  architecture: "Architecture", curves: "Training",
  kind: "Attention of", encoder: "Encoder", decoder: "Decoder", memory: "Decoder to encoder",
  layer: "Layer", heads: "Heads", head: "Head", all: "All", mode: "Show as",
  heat: "Heat map", lines: "Lines", glance: "All heads",
  headsHint:
    "A click shows one head; Shift and a click adds or removes one. A heat map of several heads is their " +
    "mean.",
  glanceHint: "Every layer and head; choose one to enlarge it.",
  kindAboutEncoder: "Every token of the text looks at every other one.",
  kindAboutDecoder: "Every token of the translation looks at itself and at those before it.",
  kindAboutMemory: "Every token of the translation (rows) looks at the text (columns).",
  heatLabel: "Heat map of the weights, {kind}, layer {layer}: rows are queries, columns are keys",
  linesLabel: "Weights as lines, {kind}, layer {layer}",
  glanceLabel: "Heat maps of all heads, {kind}",
  oneHead: "head {n}", meanOfHeads: "mean of {n} heads", weightOf: "{row} → {column}: {weight} ({heads})",
  queries: "queries", keys: "keys", looksAt: "{token} looks at {list}", isSeenBy: "{token} is seen by {list}",
  layerN: "layer {n}", headN: "head {n}", number: "{n}",
  layerHead: "layer {layer}, head {head}: press Enter or click to enlarge",
  step: "Step", stepOf: "Step {n} of {all}", previous: "Previous", next: "Next", play: "Play", pause: "Pause",
  decodingAbout:
    "At each step every live hypothesis goes on by one token, and the best {n} live on. Lines lead from parent " +
    "to child; the path that became the translation is coloured.",
  beamLabel: "The hypotheses of beam search, step by step", live: "Live hypotheses", finished: "Finished hypotheses",
  rank: "Rank", tokens: "Tokens so far", logp: "Log probability",
  noSteps: "There are no steps: this search keeps none.",
  noneYet: "None yet.", looking: "Where the decoder looks while it writes “{token}”",
  lookingLabel: "Weights of each source token at this step",
  nodeTold: "step {step}, rank {rank}: {token}, log probability {score}",
  stack: "Stack", explainAbout: "The computation of one block for this sentence, with the model's own numbers.",
  tableLabel: "{title}: a table of {rows} by {columns} numbers", cell: "{row}, {column}: {value}",
  positionsTable: "What is added to the embeddings: a row for each position, a column for each dimension",
  positionsGram: "Dot products of positions: how alike two positions are",
  noPositions: "This model's positions add nothing to the embeddings, so there is no picture of them.",
  positionCell: "position {row}, dimension {column}: {value}", gramCell: "position {row} · position {column} = {value}",
  architectureLabel: "The architecture of {name}", curvesLabel: "Training curves: loss and BLEU by step",
  noCurves: "This model folder has no training log, so there are no curves.",
  noArchitecture: "There is no drawing of this model.",
  trainLoss: "training loss", validLoss: "validation loss", bleu: "validation BLEU",
  curveTold: "step {step}: {name} {value}",
  parameters: "{n} parameters", saveAs: "Save as {kind}",
  pointOrArrows: "Point at it, or focus it and use the arrow keys.",
  keyNeeded: "This server asks for a key.", key: "API key", keySend: "Use this key",
  unreachable: "The server does not answer; is it still running?", loading: "Loading …",
};

const CHINESE = {
  title: "查询、键、值",
  tagline: "翻译一句话，看看模型在注意什么。",
  skip: "跳到图形",
  language: "语言", theme: "主题", themeAuto: "自动", themeLight: "浅色", themeDark: "深色",
  model: "模型", beam: "束宽", source: "待译文本", target: "译文",
  placeholder: "输入一句话……", examples: "试试", working: "正在翻译……",
  nothing: "输入一句话，译文和图形就会出现在这里。",
  noLook: "这段文本没有图形：{reason}。",
  score: "得分 {score}", scoreAbout: "对数概率除以长度惩罚：0 表示完全确定",
  alternatives: "其他译文", copyLink: "复制链接", copied: "链接已复制",
  sourceWords: "原文的词", targetWords: "译文的词",
  aligned: "{word} ↔ {others}", alignedNone: "{word} 没有对齐的词",
  wordHint: "把鼠标放在词上，或用方向键在词间移动，查看它与哪些词对齐。",
  views: "视图", attention: "注意力", decoding: "解码", explain: "Q K V", positions: "位置",
  architecture: "结构", curves: "训练",
  kind: "注意力", encoder: "编码器", decoder: "解码器", memory: "解码器到编码器",
  layer: "层", heads: "头", head: "头", all: "全部", mode: "显示为",
  heat: "热力图", lines: "连线", glance: "所有头",
  headsHint: "单击只看一个头；按住 Shift 单击可增减。多个头的热力图是它们的平均。",
  glanceHint: "每一层的每一个头；选择一个可放大。",
  kindAboutEncoder: "原文的每个词元都看其他所有词元。",
  kindAboutDecoder: "译文的每个词元看自己和前面的词元。",
  kindAboutMemory: "译文的每个词元（行）看原文（列）。",
  heatLabel: "权重热力图，{kind}，第 {layer} 层：行是查询，列是键",
  linesLabel: "权重连线，{kind}，第 {layer} 层",
  glanceLabel: "所有头的热力图，{kind}",
  oneHead: "第 {n} 头", meanOfHeads: "{n} 个头的平均", weightOf: "{row} → {column}：{weight}（{heads}）",
  queries: "查询", keys: "键", looksAt: "{token} 在看 {list}", isSeenBy: "{token} 被看：{list}",
  layerN: "第 {n} 层", headN: "第 {n} 头", number: "{n}", layerHead: "第 {layer} 层第 {head} 头：按回车或单击放大",
  step: "步", stepOf: "第 {n} 步，共 {all} 步", previous: "上一步", next: "下一步", play: "播放", pause: "暂停",
  decodingAbout: "每一步，每个存活的假设都延长一个词元，最好的 {n} 个继续存活。连线从父到子；成为译文的路径有颜色。",
  beamLabel: "束搜索的假设，逐步显示", live: "存活的假设", finished: "完成的假设",
  rank: "名次", tokens: "目前的词元", logp: "对数概率", noSteps: "没有步骤：这种搜索不保存步骤。",
  noneYet: "还没有。", looking: "解码器写“{token}”时在看哪里",
  lookingLabel: "这一步每个原文词元的权重", nodeTold: "第 {step} 步，第 {rank} 名：{token}，对数概率 {score}",
  stack: "栈", explainAbout: "这句话在一个块里的计算，用的是模型自己的数。",
  tableLabel: "{title}：{rows} 行 {columns} 列的数", cell: "{row}，{column}：{value}",
  positionsTable: "加到词嵌入上的值：每行一个位置，每列一个维度",
  positionsGram: "位置的点积：两个位置有多相似",
  noPositions: "这个模型的位置编码不加到词嵌入上，所以没有图。",
  positionCell: "位置 {row}，维度 {column}：{value}", gramCell: "位置 {row} · 位置 {column} = {value}",
  architectureLabel: "{name} 的结构", curvesLabel: "训练曲线：各步的损失和 BLEU",
  noCurves: "这个模型文件夹没有训练日志，所以没有曲线。", noArchitecture: "这个模型没有结构图。",
  trainLoss: "训练损失", validLoss: "验证损失", bleu: "验证 BLEU", curveTold: "第 {step} 步：{name} {value}",
  parameters: "{n} 个参数", saveAs: "保存为 {kind}",
  pointOrArrows: "用鼠标指向图形，或聚焦后用方向键。",
  keyNeeded: "这个服务器需要密钥。", key: "API 密钥", keySend: "使用这个密钥",
  unreachable: "服务器没有回应；它还在运行吗？", loading: "正在加载……",
};

// What the server says in English, in Chinese: steps of an explanation, boxes of a model.
const SAID = {
  embeddings: "词嵌入", positions: "位置", "input of the block": "块的输入", queries: "查询", keys: "键", values: "值",
  products: "点积", scores: "分数", "scaled scores": "缩放后的分数", "masked scores": "遮蔽后的分数", weights: "权重", context: "上下文",
  "heads side by side": "各头并排", "attention's output": "注意力的输出", residual: "残差", norm: "归一化",
  "after the source": "看过原文之后", "feed-forward, inside": "前馈网络内部", "feed-forward": "前馈网络",
  "output of the block": "块的输出", "Input embedding": "输入嵌入", "Output embedding": "输出嵌入", Positions: "位置编码",
  "Multi-head attention": "多头注意力", "Masked multi-head attention": "带遮蔽的多头注意力", "Add & Norm": "相加与归一化",
  "Feed-forward": "前馈网络", Linear: "线性层", Softmax: "Softmax",
};

export const LANGUAGES = { en: ENGLISH, zh: CHINESE };
let words = ENGLISH;

/** Speak this language; any other than those here is English. */
export function speak(language) {
  words = LANGUAGES[language] ?? ENGLISH;
}

/** A title that the server gave, in the language of the page where it is known. */
export function said(english) {
  return (words === CHINESE && SAID[english]) || english;
}

/** The text of a name, with its {places} filled. */
export function t(name, places = {}) {
  return words[name].replace(/\{(\w+)\}/g, (_, place) => places[place]);
}
