"""The models of the zoo, in the order of the tables. None of the libraries that build them is imported here."""

from collections.abc import Mapping

from ort_lite.record import Record


class Entry(Record):
    """A model. `family` is the module of this package with the function that builds it; `headline` puts it into the README.

    Results may be `tolerance` apart, as a share of the largest element of an output. In models of few bits, a rounding that falls the
    other way moves all that follows.
    """

    title: str
    family: str
    dtype: str = "float32"
    headline: bool = False
    tolerance: float = 2e-3


ZOO: Mapping[str, Entry] = {
    "resnet18": Entry("ResNet-18", "vision"),
    "resnet50_fp16": Entry("ResNet-50, float16", "vision", "float16", True, 0.03),
    "mobilenet_v2_qdq": Entry("MobileNet v2, int8", "vision", "int8", True, 0.1),
    "mobilenet_v3_large": Entry("MobileNet v3 large", "vision", headline=True),
    "mobileone_s1": Entry("MobileOne S1", "vision"),
    "convnext_tiny": Entry("ConvNeXt tiny", "vision", headline=True),
    "vit_b_16": Entry("ViT-B/16", "vision", headline=True),
    "mobilevit_s": Entry("MobileViT S", "vision"),
    "clip_vit_b32": Entry("CLIP ViT-B/32, one image and two texts", "text", headline=True),
    "ssdlite320": Entry("SSDLite MobileNet v3, 320 x 320", "dense", headline=True),
    "deeplabv3_mobilenet": Entry("DeepLab v3 MobileNet v3, 256 x 256", "dense", headline=True),
    "unet": Entry("U-Net, 192 x 192", "dense"),
    "bert_base": Entry("BERT base, 128 tokens", "text", headline=True),
    "bert_base_dynq": Entry("BERT base, int8 weights, 128 tokens", "text", "int8", True, 0.05),
    "minilm_l6": Entry("MiniLM L6, 128 tokens", "text"),
    "minilm_l6_fp16": Entry("MiniLM L6, float16, 128 tokens", "text", "float16", tolerance=0.03),
    "deberta_v3_small": Entry("DeBERTa v3, 4 layers, 128 tokens", "text"),
    "t5_small_decoder_past": Entry("T5 small, a decoder step after 32 tokens", "decoders"),
    "gpt2": Entry("GPT-2, a token after 128", "decoders", headline=True),
    "qwen2_4l_fp32": Entry("Qwen2, 4 layers, a token after 128", "decoders"),
    "qwen2_4l_int4": Entry("Qwen2, 4 layers, int4 weights, a token after 128", "decoders", "int4", True, 0.05),
    "whisper_tiny_encoder": Entry("Whisper tiny, encoder, 30 s", "speech", headline=True),
    "wav2vec2_base": Entry("wav2vec 2.0, 6 layers, 1 s", "speech", headline=True),
    "encodec": Entry("EnCodec, half the filters, 0.5 s", "speech"),
    "sd_unet": Entry("Stable Diffusion's U-Net, small, 32 x 32, batch 2", "diffusion", headline=True),
    "patchtst": Entry("PatchTST, 4 series of 512 steps", "tables"),
    "gat": Entry("Graph attention, 1,000 nodes", "tables"),
    "xgboost_300": Entry("XGBoost, 300 trees, 256 rows", "tables", headline=True),
    "skl_svc": Entry("Support vectors of scikit-learn, 128 rows", "tables"),
}
