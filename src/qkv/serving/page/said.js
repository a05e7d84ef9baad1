// What the server says in English of a model, its boxes and its steps, in the language of the page.

import { isEnglish } from "./strings.js";

const TITLES = {
  embeddings: "词嵌入", positions: "位置", "input of the block": "块的输入", queries: "查询", keys: "键", values: "值",
  products: "点积", scores: "分数", "scaled scores": "缩放后的分数", "masked scores": "遮蔽后的分数", weights: "权重", context: "上下文",
  "heads side by side": "各头并排", "attention's output": "注意力的输出", residual: "残差", norm: "归一化",
  "norm of the input": "输入的归一化", "norm before the source": "看原文之前的归一化",
  "attention over the source": "对原文的注意力", "residual after the source": "看过原文之后的残差",
  "norm after the source": "看过原文之后的归一化", "feed-forward, inside": "前馈网络内部", "feed-forward": "前馈网络",
  "output of the block": "块的输出", "output of the stack": "整叠的输出", Norm: "归一化", Add: "相加",
  "Input embedding": "输入嵌入", "Output embedding": "输出嵌入", Positions: "位置编码",
  "Multi-head attention": "多头注意力", "Masked multi-head attention": "带遮蔽的多头注意力", "Add & Norm": "相加与归一化",
  translate: "翻译", unpaired: "无对照翻译", "language model": "语言模型", summarise: "摘要", fill: "填空", classify: "分类",
  pair: "句对", similarity: "相似度", tag: "标注", answer: "问答", choose: "选择", cloze: "完形填空", joint: "多任务", graph: "图谱",
  "Feed-forward": "前馈网络", Linear: "线性层", Softmax: "Softmax",
};

// Sentences and their parts, with whatever stands in them: the first that fits is said, then the next of the rest.
const PHRASES = [
  [/^One row of the table for each token\./, "每个词元对应表里的一行。"],
  [/^The same, with what the position encoding adds to it\./, "同上，再加上位置编码的值。"],
  [/^What this block reads: the above, or what the block below wrote\./, "这个块读到的：上面的结果，或下面一块写出的结果。"],
  [/^Pre-norm: the last sum has had no norm yet, so one more follows the last block\./,
   "前置归一化：最后的和还没有归一化，所以最后一块之后再做一次。"],
  [/^Pre-norm: each sub-layer reads a normalised copy, the sum itself goes on as it is\./,
   "前置归一化：每个子层读的是归一化后的副本，和本身原样传下去。"],
  [/^A normalised copy for the next sub-layer\./, "给下一个子层的归一化副本。"],
  [/^What each token asks for\./, "每个词元在问什么。"], [/^What each token answers to\./, "每个词元回应什么。"],
  [/^What each token gives\./, "每个词元给出什么。"],
  [/^How well each key \(column\) answers each query \(row\)\./, "每个键（列）与每个查询（行）有多契合。"],
  [/^What softmax reads: the model's score \((\w+)\)/, "softmax 读到的：模型的分数（$1）"],
  [/, and what the position encoding adds to it\./, "，以及位置编码加上的值。"],
  [/^A token sees at most itself and what stands before it; -inf becomes a weight of 0\./,
   "词元最多看到自己和前面的词元；-inf 变成权重 0。"],
  [/^A token sees at most what is near it or of its sentence; -inf becomes a weight of 0\./,
   "词元最多看到附近的或同一句的词元；-inf 变成权重 0。"],
  [/^Each row sums to 1\./, "每行之和为 1。"],
  [/^The rows of this attention need not sum to 1\./, "这种注意力的行之和不必为 1。"],
  [/^The values, mixed by the weights\./, "按权重混合的值。"], [/^All (\d+) heads in one row\./, "$1 个头排成一行。"],
  [/^Back to the width of the model\./, "回到模型的宽度。"],
  [/^The same steps once more, with the keys and values of what the encoder wrote\./,
   "同样的步骤再来一次，键和值来自编码器写出的结果。"],
  [/^Wider, and bent: what is below 0 is cut or flattened\./, "变宽并弯折：小于 0 的被截断或压平。"],
  [/^What the next block reads\./, "下一块读到的。"], [/^The input is added to it\./, "加上输入。"],
  [/^Every token on its own: mean 0, variance 1, then the learned scale and shift\./,
   "每个词元各自：均值 0，方差 1，再乘以学到的缩放并加上偏移。"],
  [/^probabilities of the next token$/, "下一个词元的概率"], [/^probabilities of a token$/, "词元的概率"],
  [/; one table for source, target and output$/, "；原文、译文和输出共用一张表"],
  [/; one table for target and output$/, "；译文和输出共用一张表"], [/; one table with the input$/, "；与输入共用一张表"],
  [/, shifted right$/, "，右移一位"], [/^in place of a token that is asked for$/, "代替被问的词元"],
  [/^of the embeddings$/, "词嵌入的"], [/^of what the last block wrote$/, "最后一块写出的"],
  [/^vectors of what names stand for$/, "名称所指之物的向量"],
  [/^pre-norm: a copy, for the next box alone$/, "前置归一化：只给下一个方框的副本"],
  [/^what went around the two boxes below$/, "绕过下面两个方框的值"], [/^post-norm$/, "后置归一化"],
  [/^(\d+) heads? of (\d+)/, "$1 个头，每个宽 $2"], [/; keys and values from the encoder$/, "；键和值来自编码器"],
  [/; each entity looks at the others$/, "；每个实体看其他实体"], [/; tokens and entities$/, "；词元和实体"],
  [/ \(The first (\d+) of (\d+) numbers\.\)$/, "（$2 个数中的前 $1 个。）"],
];

/** A title that the server gave, in the language of the page where it is known. */
export function said(english) {
  return (!isEnglish() && TITLES[english]) || english;
}

/** A sentence that the server gave, likewise. */
export function saidOf(english) {
  if (isEnglish()) return english;
  return PHRASES.reduce((text, [pattern, chinese]) => text.replace(pattern, chinese), english);
}
